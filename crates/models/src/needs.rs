//! What an architecture's files never lack though its layers' parts run without it: without a norm, a bias or a head of its own a
//! file of another architecture is complete, one of these was made wrong. The tensors are those that llama.cpp asks for.

use candor_gguf::Gguf;

use crate::{Error, config::Config};

/// A tensor that some architectures need.
struct Need {
    /// Its name, of layers without their `blk.N.`.
    tensor: &'static str,
    /// What lacks it: the tensor whose presence asks for it, in the same layer.
    beside: &'static str,
    /// The architectures.
    of: &'static [&'static str],
}

/// A bias, which its own weight asks for.
const fn bias(tensor: &'static str, of: &'static [&'static str]) -> Need {
    Need { tensor, beside: "", of }
}

const fn need(tensor: &'static str, beside: &'static str, of: &'static [&'static str]) -> Need {
    Need { tensor, beside, of }
}

/// Those whose queries and keys are normed with weights.
const NORMED: &[&str] = &[
    "afmoe",
    "apertus",
    "dots1",
    "exaone-moe",
    "exaone4",
    "gemma-embedding",
    "gemma3",
    "gemma3n",
    "gemma4",
    "hunyuan-dense",
    "hunyuan-moe",
    "lfm2",
    "lfm2moe",
    "mellum",
    "minimax-m2",
    "olmo2",
    "olmoe",
    "qwen3",
    "qwen35",
    "qwen35moe",
    "qwen3moe",
    "qwen3next",
    "qwen3vl",
    "qwen3vlmoe",
];

/// Command R+, which has this number of layers, norms queries and keys; the smaller Command R does not.
const COMMAND_R_PLUS: (&str, usize) = ("command-r", 64);

/// Those whose head is not the embedding.
const HEADED: &[&str] = &[
    "apertus",
    "baichuan",
    "dbrx",
    "dots1",
    "exaone-moe",
    "gpt-oss",
    "gptneox",
    "internlm2",
    "mellum",
    "minimax-m2",
    "nemotron",
    "olmo2",
    "olmoe",
    "phi2",
    "phimoe",
    "qwen",
    "qwen2moe",
    "rwkv6",
    "rwkv7",
    "stablelm",
    "xverse",
];

/// Those whose norms before attention and at the end are layer norms with a bias.
const LAYER_NORMED: &[&str] = &[
    "bloom",
    "falcon",
    "gpt2",
    "gptneox",
    "jais2",
    "nemotron",
    "phi2",
    "phimoe",
    "rwkv6",
    "rwkv7",
    "stablelm",
    "starcoder",
    "starcoder2",
];

const GEMMAS: &[&str] = &["gemma", "gemma-embedding", "gemma2", "gemma3", "gemma3n", "gemma4"];
const BERTS: &[&str] = &["bert", "jina-bert-v2", "nomic-bert"];
const RWKV: &[&str] = &["rwkv6", "rwkv7"];

const NEEDS: &[Need] = &[
    need("attn_q_norm.weight", "attn_q.weight", NORMED),
    need("attn_k_norm.weight", "attn_k.weight", NORMED),
    need("attn_v.weight", "attn_k.weight", &["gemma3n"]),
    need("attn_gate.weight", "attn_output.weight", &["afmoe"]),
    need("attn_sinks.weight", "attn_output.weight", &["gpt-oss"]),
    bias("attn_qkv.bias", &["bloom", "gpt2", "gptneox", "qwen", "starcoder"]),
    bias(
        "attn_output.bias",
        &["bloom", "gpt-oss", "gpt2", "gptneox", "jais2", "jina-bert-v2", "phi2", "phimoe", "starcoder", "starcoder2"],
    ),
    bias("attn_norm.bias", LAYER_NORMED),
    bias("attn_norm_2.bias", RWKV),
    bias("attn_output_norm.bias", BERTS),
    bias("layer_output_norm.bias", BERTS),
    bias("ffn_norm.bias", &["bloom", "gpt2", "gptneox", "jais2", "nemotron", "phimoe", "starcoder", "starcoder2"]),
    bias("ffn_up.bias", &["bloom", "gpt2", "gptneox", "jais2", "phi2", "starcoder", "starcoder2"]),
    bias("ffn_down.bias", &["bloom", "gpt2", "gptneox", "jais2", "jina-bert-v2", "phi2", "starcoder", "starcoder2"]),
    need("ffn_gate.weight", "ffn_up.weight", GEMMAS),
    bias("ffn_gate_inp.bias", &["gpt-oss"]),
    bias("ffn_gate_exps.bias", &["gpt-oss"]),
    bias("ffn_up_exps.bias", &["gpt-oss"]),
    bias("ffn_down_exps.bias", &["gpt-oss"]),
    need("ffn_gate_inp_shexp.weight", "ffn_up_shexp.weight", &["qwen2moe", "qwen35moe", "qwen3next"]),
    need("exp_probs_b.bias", "ffn_gate_inp.weight", &["afmoe", "glm4moe", "lfm2moe", "minimax-m2", "nemotron_h_moe"]),
    bias("ssm_conv1d.bias", &["jamba", "mamba", "mamba2"]),
    bias("ssm_dt.bias", &["jamba", "mamba"]),
    need("ssm_dt_norm.weight", "ssm_dt.weight", &["jamba"]),
    need("ssm_b_norm.weight", "ssm_dt.weight", &["jamba"]),
    need("ssm_c_norm.weight", "ssm_dt.weight", &["jamba"]),
    need("ssm_norm.weight", "ssm_out.weight", &["granitehybrid", "mamba2", "nemotron_h", "nemotron_h_moe"]),
    bias("time_mix_ln.bias", RWKV),
    need("time_mix_w0.weight", "time_mix_w1.weight", &["rwkv7"]),
    need("time_mix_a0.weight", "time_mix_a1.weight", &["rwkv7"]),
    need("time_mix_v0.weight", "time_mix_v1.weight", &["rwkv7"]),
    need("output.weight", "token_embd.weight", HEADED),
    need("output.bias", "output.weight", &["phi2", "phimoe"]),
    bias("output_norm.bias", LAYER_NORMED),
    need("position_embd.weight", "token_embd.weight", &["bert", "gpt2", "starcoder"]),
    need("rope_freqs.weight", "token_embd.weight", &["gemma4"]),
    need("token_embd_norm.weight", "token_embd.weight", &["modern-bert"]),
    bias("token_embd_norm.bias", &["bert", "bloom", "jina-bert-v2", "nomic-bert", "rwkv6", "rwkv7"]),
    need("token_types.weight", "token_embd.weight", &["jina-bert-v2"]),
];

/// Whether an architecture needs a tensor in a model of `layers` layers.
fn needed(need: &Need, arch: &str, layers: usize) -> bool {
    let (plus, least) = COMMAND_R_PLUS;
    let normed = need.of == NORMED && arch == plus && layers >= least;
    normed || need.of.contains(&arch)
}

/// Fails by the name of the first tensor that the file's architecture needs and the file lacks.
pub(crate) fn check(gguf: &Gguf, arch: &str, config: &Config) -> Result<(), Error> {
    let has = |name: &str| gguf.tensor(name).is_some();
    let places = (0..config.layers).map(|i| config.name(i, "")).chain([String::new()]);
    let needs: Vec<&Need> = NEEDS.iter().filter(|need| needed(need, arch, config.layers)).collect();
    for place in places {
        for Need { tensor, beside, .. } in &needs {
            let weight = tensor.replace(".bias", ".weight");
            let beside = if beside.is_empty() { &weight } else { *beside };
            let name = format!("{place}{tensor}");
            if has(&format!("{place}{beside}")) && !has(&name) {
                return Err(Error::MissingTensor(name));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ARCHITECTURES;

    #[test]
    fn only_large_command_rs_have_norms_of_queries_and_keys() {
        let normed =
            |layers| NEEDS.iter().filter(move |need| needed(need, "command-r", layers)).map(|need| need.tensor);
        assert_eq!(normed(40).count(), 0);
        assert!(normed(64).eq(["attn_q_norm.weight", "attn_k_norm.weight"]));
    }

    #[test]
    fn the_architectures_are_those_of_the_registry() {
        let known = |name: &&str| ARCHITECTURES.iter().any(|row| row.name == *name);
        let named = NEEDS.iter().flat_map(|need| need.of).chain([&COMMAND_R_PLUS.0]);
        let unknown: Vec<_> = named.filter(|name| !known(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
