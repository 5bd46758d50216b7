//! Tiny models of other wirings, made from lists of their tensors: LayerNorm with biases, learned positions, token types,
//! parallel blocks, norms after a half, limited gates of experts with biases, fused products, scales and caps.

use candor_gguf::{Format, Gguf, Value, Writer};
use candor_testing::{Random, Tiny};

use crate::bed::Bed;

const DIM: u64 = 48;
const HEAD: u64 = 8;
const HEADS: u64 = 6;
const KV: u64 = 2 * HEAD;
const Q: u64 = HEADS * HEAD;
const FFN: u64 = 40;
const EXPERTS: u64 = 4;
/// The short vectors of latent attention, and the elements of a head that turn there.
const RANK: u64 = 24;
const TURNING: u64 = 4;

/// A family: its architecture, metadata beside a llama's, tensors of a layer, and those of no layer beside the embedding.
struct Family {
    arch: &'static str,
    kv_heads: u64,
    metadata: Vec<(&'static str, Value)>,
    layer: Vec<(&'static str, Vec<u64>)>,
    globals: Vec<(&'static str, Vec<u64>)>,
}

/// Tensors with these names: matrices with biases, and norms with biases.
fn with_biases(names: &[(&'static str, &'static str, [u64; 2])]) -> Vec<(&'static str, Vec<u64>)> {
    let both = |&(weight, bias, shape): &(&'static str, &'static str, [u64; 2])| {
        let vector = shape[0] == 0;
        let shape = if vector { vec![shape[1]] } else { shape.to_vec() };
        let len = *shape.last().unwrap_or(&0);
        [(weight, shape), (bias, vec![len])]
    };
    names.iter().flat_map(both).filter(|(name, _)| !name.is_empty()).collect()
}

fn norms(names: &[&'static str]) -> Vec<(&'static str, Vec<u64>)> {
    names.iter().map(|name| (*name, vec![DIM])).collect()
}

fn fused_attention(qkv: u64) -> Vec<(&'static str, Vec<u64>)> {
    with_biases(&[
        ("attn_qkv.weight", "attn_qkv.bias", [DIM, qkv]),
        ("attn_output.weight", "attn_output.bias", [Q, DIM]),
    ])
}

fn attention() -> Vec<(&'static str, Vec<u64>)> {
    vec![
        ("attn_q.weight", vec![DIM, Q]),
        ("attn_k.weight", vec![DIM, KV]),
        ("attn_v.weight", vec![DIM, KV]),
        ("attn_output.weight", vec![Q, DIM]),
    ]
}

fn gated() -> Vec<(&'static str, Vec<u64>)> {
    vec![("ffn_gate.weight", vec![DIM, FFN]), ("ffn_up.weight", vec![DIM, FFN]), ("ffn_down.weight", vec![FFN, DIM])]
}

fn plain() -> Vec<(&'static str, Vec<u64>)> {
    with_biases(&[("ffn_up.weight", "ffn_up.bias", [DIM, FFN]), ("ffn_down.weight", "ffn_down.bias", [FFN, DIM])])
}

fn layer_norms(names: &[(&'static str, &'static str)]) -> Vec<(&'static str, Vec<u64>)> {
    names.iter().flat_map(|&(weight, bias)| [(weight, vec![DIM]), (bias, vec![DIM])]).collect()
}

fn families() -> Vec<Family> {
    let vocab = Tiny::VOCAB as u64;
    let output_norm = || layer_norms(&[("output_norm.weight", "output_norm.bias")]);
    let rms = || norms(&["output_norm.weight"]);
    let attn = ("attn_norm.weight", "attn_norm.bias");
    let ffn = ("ffn_norm.weight", "ffn_norm.bias");
    vec![
        Family {
            arch: "gpt2",
            kv_heads: HEADS,
            metadata: vec![("attention.layer_norm_epsilon", 1e-2f32.into())],
            layer: [fused_attention(3 * Q), plain(), layer_norms(&[attn, ffn])].concat(),
            globals: [
                output_norm(),
                vec![("position_embd.weight", vec![DIM, 64]), ("output.weight", vec![DIM, vocab])],
            ]
            .concat(),
        },
        Family {
            arch: "bert",
            kv_heads: HEADS,
            metadata: vec![("attention.layer_norm_epsilon", 1e-5f32.into()), ("attention.causal", false.into())],
            layer: [
                fused_attention(3 * Q),
                plain(),
                layer_norms(&[
                    ("attn_output_norm.weight", "attn_output_norm.bias"),
                    ("layer_output_norm.weight", "layer_output_norm.bias"),
                ]),
            ]
            .concat(),
            globals: [
                layer_norms(&[("token_embd_norm.weight", "token_embd_norm.bias")]),
                vec![("position_embd.weight", vec![DIM, 64]), ("token_types.weight", vec![DIM, 2])],
            ]
            .concat(),
        },
        Family {
            arch: "phi2",
            kv_heads: HEADS,
            metadata: vec![("attention.layer_norm_epsilon", 1e-5f32.into())],
            layer: [fused_attention(3 * Q), plain(), layer_norms(&[attn])].concat(),
            globals: [output_norm(), vec![("output.weight", vec![DIM, vocab]), ("output.bias", vec![vocab])]].concat(),
        },
        Family {
            arch: "falcon",
            kv_heads: 2,
            metadata: vec![("attention.layer_norm_epsilon", 1e-5f32.into())],
            layer: [
                vec![("attn_qkv.weight", vec![DIM, Q + 2 * KV]), ("attn_output.weight", vec![Q, DIM])],
                vec![("ffn_up.weight", vec![DIM, FFN]), ("ffn_down.weight", vec![FFN, DIM])],
                layer_norms(&[attn, ("attn_norm_2.weight", "attn_norm_2.bias")]),
            ]
            .concat(),
            globals: [output_norm(), vec![("output.weight", vec![DIM, vocab])]].concat(),
        },
        Family {
            arch: "gemma2",
            kv_heads: 2,
            metadata: vec![
                ("attention.sliding_window", 5u32.into()),
                ("attn_logit_softcapping", 5.0f32.into()),
                ("final_logit_softcapping", 3.0f32.into()),
            ],
            layer: [
                attention(),
                gated(),
                norms(&["attn_norm.weight", "ffn_norm.weight", "post_attention_norm.weight", "post_ffw_norm.weight"]),
            ]
            .concat(),
            globals: rms(),
        },
        Family {
            arch: "olmo2",
            kv_heads: 2,
            metadata: Vec::new(),
            layer: [
                attention(),
                gated(),
                norms(&["post_attention_norm.weight", "post_ffw_norm.weight"]),
                vec![("attn_q_norm.weight", vec![Q]), ("attn_k_norm.weight", vec![KV])],
            ]
            .concat(),
            globals: [rms(), vec![("output.weight", vec![DIM, vocab])]].concat(),
        },
        Family {
            arch: "apertus",
            kv_heads: 2,
            metadata: vec![
                ("xielu.alpha_n", vec![0.3f32, 0.6, 0.1].into()),
                ("xielu.alpha_p", vec![0.4f32, 0.2, 0.7].into()),
                ("xielu.beta", vec![0.5f32; 3].into()),
                ("xielu.eps", vec![-1e-6f32; 3].into()),
            ],
            layer: [
                attention(),
                vec![("ffn_up.weight", vec![DIM, FFN]), ("ffn_down.weight", vec![FFN, DIM])],
                norms(&["attn_norm.weight", "ffn_norm.weight"]),
                vec![("attn_q_norm.weight", vec![HEAD]), ("attn_k_norm.weight", vec![HEAD])],
            ]
            .concat(),
            globals: [rms(), vec![("output.weight", vec![DIM, vocab])]].concat(),
        },
        Family {
            arch: "jina-bert-v2",
            kv_heads: HEADS,
            metadata: vec![("attention.layer_norm_epsilon", 1e-5f32.into()), ("attention.causal", false.into())],
            layer: [
                with_biases(&[
                    ("attn_q.weight", "attn_q.bias", [DIM, Q]),
                    ("attn_k.weight", "attn_k.bias", [DIM, Q]),
                    ("attn_v.weight", "attn_v.bias", [DIM, Q]),
                    ("attn_output.weight", "attn_output.bias", [Q, DIM]),
                    ("ffn_down.weight", "ffn_down.bias", [FFN, DIM]),
                ]),
                gated().into_iter().filter(|(name, _)| *name != "ffn_down.weight").collect(),
                layer_norms(&[
                    ("attn_output_norm.weight", "attn_output_norm.bias"),
                    ("layer_output_norm.weight", "layer_output_norm.bias"),
                ]),
            ]
            .concat(),
            globals: [
                layer_norms(&[("token_embd_norm.weight", "token_embd_norm.bias")]),
                vec![("token_types.weight", vec![DIM, 2])],
            ]
            .concat(),
        },
        Family {
            arch: "llama4",
            kv_heads: 2,
            metadata: vec![
                ("expert_count", (EXPERTS as u32).into()),
                ("expert_used_count", 1u32.into()),
                ("expert_feed_forward_length", (FFN as u32).into()),
                ("interleave_moe_layer_step", 1u32.into()),
            ],
            layer: [
                attention(),
                vec![
                    ("ffn_gate_inp.weight", vec![DIM, EXPERTS]),
                    ("ffn_gate_exps.weight", vec![DIM, FFN, EXPERTS]),
                    ("ffn_up_exps.weight", vec![DIM, FFN, EXPERTS]),
                    ("ffn_down_exps.weight", vec![FFN, DIM, EXPERTS]),
                    ("ffn_gate_shexp.weight", vec![DIM, FFN]),
                    ("ffn_up_shexp.weight", vec![DIM, FFN]),
                    ("ffn_down_shexp.weight", vec![FFN, DIM]),
                ],
                norms(&["attn_norm.weight", "ffn_norm.weight"]),
            ]
            .concat(),
            globals: [rms(), vec![("output.weight", vec![DIM, vocab])]].concat(),
        },
        Family {
            arch: "granite",
            kv_heads: 2,
            metadata: vec![
                ("embedding_scale", 6.0f32.into()),
                ("residual_scale", 0.22f32.into()),
                ("logit_scale", 4.0f32.into()),
                ("attention.scale", 0.2f32.into()),
            ],
            layer: [attention(), gated(), norms(&["attn_norm.weight", "ffn_norm.weight"])].concat(),
            globals: rms(),
        },
        Family {
            arch: "hunyuan-dense",
            kv_heads: 2,
            metadata: Vec::new(),
            layer: [
                attention(),
                gated(),
                norms(&["attn_norm.weight", "ffn_norm.weight"]),
                vec![("attn_q_norm.weight", vec![HEAD]), ("attn_k_norm.weight", vec![HEAD])],
            ]
            .concat(),
            globals: rms(),
        },
        Family {
            arch: "phi3",
            kv_heads: 2,
            metadata: Vec::new(),
            layer: [
                vec![("attn_qkv.weight", vec![DIM, Q + 2 * KV]), ("attn_output.weight", vec![Q, DIM])],
                vec![("ffn_up.weight", vec![DIM, 2 * FFN]), ("ffn_down.weight", vec![FFN, DIM])],
                norms(&["attn_norm.weight", "ffn_norm.weight"]),
            ]
            .concat(),
            globals: [rms(), vec![("output.weight", vec![DIM, vocab])]].concat(),
        },
        // Latent attention whose two short vectors are equally long: their norms can be exchanged.
        Family {
            arch: "minicpm3",
            kv_heads: HEADS,
            metadata: vec![
                ("attention.q_lora_rank", (RANK as u32).into()),
                ("attention.kv_lora_rank", (RANK as u32).into()),
                ("attention.key_length", (HEAD as u32).into()),
                ("attention.value_length", (HEAD as u32).into()),
                ("rope.dimension_count", (TURNING as u32).into()),
            ],
            layer: [
                vec![
                    ("attn_q_a.weight", vec![DIM, RANK]),
                    ("attn_q_a_norm.weight", vec![RANK]),
                    ("attn_q_b.weight", vec![RANK, Q]),
                    ("attn_kv_a_mqa.weight", vec![DIM, RANK + TURNING]),
                    ("attn_kv_a_norm.weight", vec![RANK]),
                    ("attn_kv_b.weight", vec![RANK, HEADS * (2 * HEAD - TURNING)]),
                    ("attn_output.weight", vec![Q, DIM]),
                ],
                gated(),
                norms(&["attn_norm.weight", "ffn_norm.weight"]),
            ]
            .concat(),
            globals: rms(),
        },
        Family {
            arch: "nemotron",
            kv_heads: 2,
            metadata: vec![("attention.layer_norm_epsilon", 1e-5f32.into())],
            layer: [
                attention(),
                vec![("ffn_up.weight", vec![DIM, FFN]), ("ffn_down.weight", vec![FFN, DIM])],
                layer_norms(&[attn, ffn]),
            ]
            .concat(),
            globals: [output_norm(), vec![("output.weight", vec![DIM, vocab])]].concat(),
        },
        Family {
            arch: "gpt-oss",
            kv_heads: 2,
            metadata: vec![
                ("attention.sliding_window", 5u32.into()),
                ("expert_count", (EXPERTS as u32).into()),
                ("expert_used_count", 2u32.into()),
                ("expert_feed_forward_length", (FFN as u32).into()),
            ],
            layer: [
                with_biases(&[
                    ("attn_q.weight", "attn_q.bias", [DIM, Q]),
                    ("attn_k.weight", "attn_k.bias", [DIM, KV]),
                    ("attn_v.weight", "attn_v.bias", [DIM, KV]),
                    ("attn_output.weight", "attn_output.bias", [Q, DIM]),
                    ("ffn_gate_inp.weight", "ffn_gate_inp.bias", [DIM, EXPERTS]),
                ]),
                vec![
                    ("attn_sinks.weight", vec![HEADS]),
                    ("ffn_gate_exps.weight", vec![DIM, FFN, EXPERTS]),
                    ("ffn_up_exps.weight", vec![DIM, FFN, EXPERTS]),
                    ("ffn_down_exps.weight", vec![FFN, DIM, EXPERTS]),
                    ("ffn_gate_exps.bias", vec![FFN, EXPERTS]),
                    ("ffn_up_exps.bias", vec![FFN, EXPERTS]),
                    ("ffn_down_exps.bias", vec![DIM, EXPERTS]),
                ],
                norms(&["attn_norm.weight", "post_attention_norm.weight"]),
            ]
            .concat(),
            globals: [rms(), vec![("output.weight", vec![DIM, vocab])]].concat(),
        },
    ]
}

impl Family {
    fn gguf(&self) -> Gguf {
        let tiny = Tiny {
            arch: self.arch,
            // Llama 4 does not rotate in every fourth.
            layers: if self.arch == "llama4" { 4 } else { 3 },
            dim: DIM as usize,
            heads: HEADS as usize,
            kv_heads: self.kv_heads as usize,
            head_dim: HEAD as usize,
            ffn: FFN as usize,
            head: false,
            seed: 11,
        };
        let mut writer = Writer::new();
        for (key, value) in tiny.metadata() {
            writer.insert(key, value);
        }
        // The token of the prompt's end is padding too, as in many models.
        writer.insert("tokenizer.ggml.padding_token_id", 281u32);
        for (key, value) in &self.metadata {
            let prefix = if key.starts_with("xielu.") { String::new() } else { format!("{}.", self.arch) };
            writer.insert(format!("{prefix}{key}"), value.clone());
        }
        let mut tensors = vec![("token_embd.weight".to_owned(), vec![DIM, Tiny::VOCAB as u64])];
        tensors.extend(self.globals.iter().map(|(name, shape)| ((*name).to_owned(), shape.clone())));
        for layer in 0..tiny.layers {
            tensors.extend(self.layer.iter().map(|(name, shape)| (format!("blk.{layer}.{name}"), shape.clone())));
        }
        let mut random = Random(tiny.seed);
        for (name, shape) in tensors {
            let count = shape.iter().product::<u64>() as usize;
            let (middle, spread) = match name.as_str() {
                name if name.ends_with(".bias") => (0.1, 0.4),
                "token_embd.weight" | "position_embd.weight" | "token_types.weight" => (0.05, 0.4),
                name if name.contains("ffn_gate_exps") || name.contains("ffn_up_exps") => (0.0, 2.0),
                _ if shape.len() == 1 => (0.9, 0.4),
                _ => (0.0, (3.0 / shape[0] as f32).sqrt()),
            };
            let values = (0..count).flat_map(|_| (middle + spread * random.signed()).to_le_bytes());
            writer.tensor(&name, Format::F32, &shape, values.collect::<Vec<u8>>()).unwrap();
        }
        Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
    }
}

pub fn beds() -> Vec<Bed> {
    families().iter().map(|family| Bed::worded(family.arch, family.gguf())).collect()
}
