//! Names of dumps with the model at hand: all that its own graph has are known, and modules of other programs are what this
//! wiring makes of their weights.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use candor::Gguf;
use candor_inspect::{
    Evidence, Graph, Key, Known, Wiring,
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
    let Some(fixtures) = candor_testing::fixtures() else { return };
    for (arch, theirs, ours) in [
        ("gpt2", "transformer.wte", "inp_embd.get_rows"),
        ("gpt2", "transformer.h.0.ln_1", "attn_norm-0"),
        ("gpt2", "transformer.h.0.ln_2", "ffn_norm-0"),
        ("gpt2", "transformer.h.0.attn.c_attn", "Kcur.add-0 Qcur.add-0 Vcur-0"),
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
        ("llama", "model.layers.0.mlp.gate_up_proj", "ffn_gate-0 ffn_up-0"),
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
        ("bert", "bert.encoder.layer.0.attention.self.query", "Qcur.add-0"),
        ("bert", "bert.encoder.layer.0.attention.output.LayerNorm", "ffn_inp-0"),
        ("bert", "bert.encoder.layer.0.intermediate.dense", "ffn_up-0"),
        ("bert", "bert.encoder.layer.0.output.dense", "ffn_out-0"),
        ("bert", "bert.encoder.layer.0.output", "l_out-0"),
        ("bert", "bert.embeddings.LayerNorm", "inp_embd"),
        ("modernbert", "embeddings", "inp_embd"),
        ("llama", "model.layers.1.input_layernorm.output[0]", "attn_norm-1"),
        ("llama", "model.layers.1.input_layernorm.output[1]", "l_out-0"),
        ("llama", "model.layers.0.post_attention_layernorm.output[1]", "ffn_inp-0"),
        ("llama", "model.layers.0.output[1]", "ffn_inp-0"),
        ("gemma2", "model.layers.0.pre_feedforward_layernorm.output.1", "ffn_inp-0"),
        ("qwen3", "model.norm.outputs_1", "l_out-2"),
        ("gemma2", "logits_processor.output", "result_output"),
        ("modernbert", "embeddings.tok_embeddings", "inp_embd.get_rows"),
    ] {
        let graph = graph(&fixtures.join("arch").join(arch).join("model.gguf"));
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

/// Reads a log of two tokens whose nodes are these, each as `(name, operation, sources, width, number)`.
fn read_log(graph: &Graph, nodes: &[(&str, &str, &str, usize, f32)]) -> BTreeMap<String, f32> {
    let mut text = String::new();
    for (name, op, sources, width, value) in nodes {
        let row = vec![format!("{value:.4}"); *width].join(", ");
        let shape = format!("{{{width}, 2, 1, 1}}");
        let sources: Vec<String> = sources.split(' ').map(|source| format!("{source}{shape}")).collect();
        let sources = sources.join(", ");
        text += &format!(
            "common_debug_cb_eval: {name} = (f32) {op}({sources}}}) = {shape}\n[\n[\n[{row}],\n[{row}],\n],\n]\n"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.txt");
    std::fs::write(&path, text).unwrap();
    let options = ReadOptions { wiring: Some(Arc::new(Wiring::of(graph))), ..ReadOptions::default() };
    let imported = import(&path, &options).unwrap_or_else(|error| panic!("{error}"));
    let first = |evidence: &Evidence| match &evidence.known {
        Known::Some(cells) => cells[0].2,
        Known::All(values) => values[0],
    };
    imported.trace.values.iter().map(|(key, evidence)| (key.to_string(), first(evidence))).collect()
}

#[test]
fn nodes_of_a_log_are_what_their_weights_make() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    for (arch, nodes, wanted) in [
        // A name that comes again with the stream added to it.
        (
            "gptneox",
            &[
                ("embd", "GET_ROWS", "token_embd.weight inp_tokens", 64, 1.0),
                ("ffn_down-0", "MUL_MAT", "blk.0.ffn_down.weight ffn_gelu-0", 64, 2.0),
                ("ffn_out-0", "ADD", "ffn_down-0 blk.0.ffn_down.bias", 64, 3.0),
                ("ffn_out-0", "ADD", "ffn_out-0 embd", 64, 4.0),
            ][..],
            &[("inp_embd", 1.0), ("ffn_out.mul_mat-0", 2.0), ("ffn_out-0", 3.0)][..],
        ),
        // Two norms of a layer's input, and a norm that carries another value's name.
        (
            "falcon-40b",
            &[
                ("norm_w-0", "MUL", "norm-0 blk.0.attn_norm_2.weight", 64, 1.0),
                ("attn_norm_2-0", "ADD", "norm_w-0 blk.0.attn_norm_2.bias", 64, 2.0),
                ("norm_w-0", "MUL", "norm-0 blk.0.attn_norm.weight", 64, 3.0),
                ("attn_norm-0", "ADD", "norm_w-0 blk.0.attn_norm.bias", 64, 4.0),
            ],
            &[("attn_norm-0", 2.0), ("ffn_norm-0", 4.0)],
        ),
        (
            "qwen2moe",
            &[
                ("ffn_moe_out-0", "MUL", "norm-0 blk.0.ffn_norm.weight", 64, 1.0),
                ("ffn_moe_out-0", "ADD", "node_1 node_2", 64, 2.0),
            ],
            &[("ffn_norm-0", 1.0), ("ffn_moe_out-0", 2.0)],
        ),
        // One product for the gate and what it gates is no value of the model's, and no other model's.
        (
            "phi3",
            &[
                ("ffn_up-0", "MUL_MAT", "blk.0.ffn_up.weight ffn_norm-0", 256, 1.0),
                ("ffn_out-0", "MUL_MAT", "blk.0.ffn_down.weight ffn_swiglu-0", 64, 2.0),
            ],
            &[("ffn_out-0", 2.0)],
        ),
        (
            "gemma2",
            &[("embd", "GET_ROWS", "token_embd.weight inp_tokens", 64, 1.0), ("inp_scaled", "SCALE", "embd", 64, 8.0)],
            &[("inp_embd", 8.0), ("inp_embd.get_rows", 1.0)],
        ),
        // How fast a state fades is no gate of a feed-forward block.
        (
            "qwen3next",
            &[("gate-0", "MUL", "a_softplus-0 blk.0.ssm_a", 4, 1.0), ("l_out-0", "ADD", "a b", 64, 2.0)],
            &[("gate-0", 1.0), ("l_out-0", 2.0)],
        ),
    ] {
        let found = read_log(&graph(&fixtures.join("arch").join(arch).join("model.gguf")), nodes);
        let wanted: BTreeMap<String, f32> = wanted.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        assert_eq!(found, wanted, "{arch}");
    }
}

/// Norms beside attention, rows of logits alone.
#[test]
fn other_names_of_a_dump_tell_more() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let bert = graph(&fixtures.join("arch/distilbert/model.gguf"));
    let names = ["transformer.layer.0.attention", "transformer.layer.0.sa_layer_norm"];
    let imported = read(&bert, &names.map(|name| (name.to_owned(), 64)));
    let found: Vec<String> = imported.trace.values.keys().map(ToString::to_string).collect();
    assert_eq!(found, ["attn_out-0", "ffn_inp-0"]);
}

#[test]
fn logits_alone_are_the_last_tokens() {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let graph = graph(&goldens.join("qwen3-f32.gguf"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.safetensors");
    let zeros = [0; 64];
    let view = TensorView::new(Dtype::F32, vec![1, 16], &zeros).unwrap();
    safetensors::serialize_to_file([("logits", view)], None, &path).unwrap();
    let wiring = Some(Arc::new(Wiring::of(&graph)));
    for (tokens, rows) in [(Some(vec![1, 2, 3]), Some(vec![2])), (Some(vec![1]), Some(vec![0])), (None, None)] {
        let options = ReadOptions { wiring: wiring.clone(), tokens, ..ReadOptions::default() };
        let imported = import(&path, &options).unwrap();
        assert_eq!(imported.trace.values[&Key::new("result_output", None)].rows, rows);
    }
}
