//! Names of dumps with the model at hand: all that its own graph has are known, and modules of other programs are what this
//! wiring makes of their weights.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use candor::gguf::Gguf;
use candor_inspect::{
    Graph, Key, Wiring,
    import::{Imported, ReadOptions, import},
};
use safetensors::tensor::{Dtype, TensorView};

/// Reads a dump of two tokens with these names, each as wide as said.
fn read(graph: &Graph, names: &[(String, usize)]) -> Imported {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.safetensors");
    let zeros = vec![0; 8 * names.iter().map(|(_, width)| *width).max().unwrap_or(0)];
    let view = |width: &usize| TensorView::new(Dtype::F32, vec![2, *width], &zeros[..8 * width]).unwrap();
    let tensors: Vec<(&String, TensorView<'_>)> = names.iter().map(|(name, width)| (name, view(width))).collect();
    safetensors::serialize_to_file(tensors, None, &path).unwrap();
    let options = ReadOptions { wiring: Some(Arc::new(Wiring::of(graph))), ..ReadOptions::default() };
    import(&path, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn graph(path: &Path) -> Graph {
    Graph::new(&Gguf::open(path).unwrap()).unwrap()
}

#[test]
fn every_name_of_a_graph_is_known() {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let mut models = vec![goldens.join("qwen3-f32.gguf")];
    for entry in std::fs::read_dir(goldens.join("architectures")).unwrap() {
        models.push(entry.unwrap().path().join("model.gguf"));
    }
    for model in models {
        let graph = graph(&model);
        let keys: BTreeMap<Key, usize> =
            graph.nodes.iter().map(|node| (node.key.clone(), node.width * node.per_token)).collect();
        let names: Vec<(String, usize)> = keys.iter().map(|(key, width)| (key.to_string(), *width)).collect();
        let imported = read(&graph, &names);
        assert_eq!(imported.unknown, [""; 0], "{}", model.display());
        // Values of llama.cpp that stand for another moment, and names that differ in signs alone, may meet.
        let missing: Vec<&Key> = keys.keys().filter(|key| !imported.trace.values.contains_key(*key)).collect();
        assert!(missing.len() * 20 <= keys.len(), "{}: {missing:?}, {:?}", model.display(), imported.skipped);
    }
}

#[test]
fn modules_are_what_a_wiring_makes_of_their_weights() {
    let Some(fixtures) = std::env::var_os("CANDOR_FIXTURES") else {
        println!("skipped: CANDOR_FIXTURES is not set");
        return;
    };
    for (arch, theirs, ours) in [
        ("gpt2", "transformer.wte", "inp_embd.get_rows"),
        ("gpt2", "transformer.h.0.ln_1", "attn_norm-0"),
        ("gpt2", "transformer.h.0.ln_2", "ffn_norm-0"),
        ("gpt2", "transformer.h.0.attn.c_attn", "Kcur-0 Qcur-0 Vcur-0"),
        ("gpt2", "transformer.h.0.attn.c_proj", "attn_out-0"),
        ("gpt2", "transformer.h.0.mlp.c_fc", "ffn_up-0"),
        ("gpt2", "transformer.h.0.mlp.act", "ffn_act-0"),
        ("gpt2", "transformer.h.0.mlp.c_proj", "ffn_out-0"),
        ("gpt2", "lm_head", "result_output"),
        ("gpt2", "blk.0.ffn_act", "ffn_act-0"),
        ("gptneox", "gpt_neox.layers.0.attention.query_key_value", "Kcur.add-0 Qcur.add-0 Vcur-0"),
        ("gptneox", "gpt_neox.layers.0.attention.dense", "attn_out-0"),
        ("gptneox", "gpt_neox.layers.0.mlp.dense_h_to_4h", "ffn_up-0"),
        ("gptneox", "embed_out", "result_output"),
        ("phi3", "model.layers.0.self_attn.qkv_proj", "Kcur.mul_mat-0 Qcur.mul_mat-0 Vcur-0"),
        ("phi3", "model.layers.0.mlp.gate_up_proj", "ffn_gate-0 ffn_up-0"),
        ("phi3", "model.layers.0.mlp.gate_up_proj.output[0]", "ffn_gate-0 ffn_up-0"),
        ("llama", "model.layers.0.self_attn.qkv_proj", "Kcur.mul_mat-0 Qcur.mul_mat-0 Vcur-0"),
        ("llama", "model.layers.0.post_attention_layernorm", "ffn_norm-0"),
        ("llama", "layers.0.attention.wq", "Qcur.mul_mat-0"),
        ("gemma2", "model.layers.0.post_attention_layernorm", "attn_post_norm-0"),
        ("gemma2", "model.layers.0.pre_feedforward_layernorm", "ffn_norm-0"),
        ("gemma2", "model.embed_tokens", "inp_embd.get_rows"),
        ("gemma2", "model.layers.0.mlp.act_fn", "ffn_gate_par.gelu-0"),
        ("gemma3", "model.embed_tokens", "inp_embd"),
        ("glm4", "model.layers.0.post_attention_layernorm", "ffn_norm-0"),
        ("glm4", "model.layers.0.post_self_attn_layernorm", "attn_post_norm-0"),
        ("mamba", "backbone.layers.0.norm", "attn_norm-0"),
        ("mamba", "backbone.layers.0.mixer.out_proj.input", "ssm_y-0"),
        ("mixtral", "model.layers.0.block_sparse_moe.gate", "ffn_moe_logits-0"),
        ("mixtral", "model.layers.0.block_sparse_moe", "ffn_moe_out-0"),
        ("gpt-oss", "model.layers.0.mlp.router", "ffn_moe_logits-0"),
        ("gpt-oss", "attn_post_norm-0", "ffn_norm-0"),
        ("qwen2moe", "model.layers.0.mlp.shared_expert.gate_proj", "ffn_gate-0"),
        ("bert", "bert.encoder.layer.0.attention.self.query", "Qcur-0"),
        ("bert", "bert.encoder.layer.0.attention.output.LayerNorm", "ffn_inp-0"),
        ("bert", "bert.encoder.layer.0.intermediate.dense", "ffn_up-0"),
        ("bert", "bert.encoder.layer.0.output.dense", "ffn_out-0"),
        ("bert", "bert.encoder.layer.0.output", "l_out-0"),
        ("bert", "bert.embeddings.LayerNorm", "inp_embd"),
    ] {
        let graph = graph(&Path::new(&fixtures).join("arch").join(arch).join("model.gguf"));
        let wanted: Vec<&str> = ours.split(' ').collect();
        let width = |name: &str| {
            let id = graph.find(&name.parse::<Key>().unwrap()).unwrap_or_else(|| panic!("{arch} has no {name}"));
            graph.nodes[id].width * graph.nodes[id].per_token
        };
        let width: usize = wanted.iter().map(|name| width(name)).sum();
        let imported = read(&graph, &[(theirs.to_owned(), width)]);
        let found: Vec<String> = imported.trace.values.keys().map(ToString::to_string).collect();
        assert_eq!(found, wanted, "{arch} {theirs}");
    }
}
