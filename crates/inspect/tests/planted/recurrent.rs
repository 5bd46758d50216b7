//! Tiny models with states: Mamba with and without its small norms, Mamba-2 beside attention, RWKV-6 and RWKV-7, a delta rule with its gates
//! in one matrix and in two, short convolutions, several streams.

use std::path::Path;

use candor_gguf::{Array, Format, Gguf, Value, Writer};
use candor_testing::{Random, Tiny};

use crate::bed::Bed;

/// A tensor of a layer and its shape, the row length first.
type Part<'a> = (&'a str, &'a [u64]);

/// A model with states in each layer.
struct Shape<'a> {
    arch: &'static str,
    name: &'static str,
    layers: usize,
    numbers: &'a [(&'static str, u32)],
    flags: &'a [&'static str],
    parts: &'a [Part<'a>],
    /// The last norm, and tensors of no layer.
    beside: &'a [Part<'a>],
}

const DIM: u64 = 32;
const BLOCK: [Part<'static>; 4] = [
    ("ffn_norm.weight", &[DIM]),
    ("ffn_gate.weight", &[DIM, 48]),
    ("ffn_up.weight", &[DIM, 48]),
    ("ffn_down.weight", &[48, DIM]),
];
const LAST: Part<'static> = ("output_norm.weight", &[DIM]);
const SSM: [(&str, u32); 3] = [("ssm.conv_kernel", 4), ("ssm.inner_size", 64), ("ssm.state_size", 8)];

fn mamba(normed: bool) -> Bed {
    let numbers = [&SSM[..], &[("ssm.time_step_rank", 4)]].concat();
    let (name, flags): (_, &[&str]) = if normed { ("mamba with norms", &["ssm.dt_b_c_rms"]) } else { ("mamba", &[]) };
    Shape {
        arch: "mamba",
        name,
        layers: 2,
        numbers: &numbers,
        flags,
        parts: &[
            ("attn_norm.weight", &[DIM]),
            ("ssm_in.weight", &[DIM, 128]),
            ("ssm_conv1d.weight", &[4, 64]),
            ("ssm_conv1d.bias", &[64]),
            ("ssm_x.weight", &[64, 20]),
            ("ssm_dt.weight", &[4, 64]),
            ("ssm_dt.bias", &[64]),
            ("ssm_a", &[8, 64]),
            ("ssm_d", &[64]),
            ("ssm_out.weight", &[64, DIM]),
        ],
        beside: &[LAST],
    }
    .bed()
}

/// Mamba-2 beside attention, as Falcon-H1 has it, with the gated norm of others.
fn mamba2() -> Bed {
    let numbers = [&SSM[..], &[("ssm.time_step_rank", 8), ("ssm.group_count", 2)]].concat();
    let parts: Vec<Part<'_>> = [
        ("attn_norm.weight", &[DIM][..]),
        ("attn_q.weight", &[DIM, 32]),
        ("attn_k.weight", &[DIM, 16]),
        ("attn_v.weight", &[DIM, 16]),
        ("attn_output.weight", &[32, DIM]),
        ("ssm_in.weight", &[DIM, 168]),
        ("ssm_conv1d.weight", &[4, 96]),
        ("ssm_conv1d.bias", &[96]),
        ("ssm_dt.bias", &[8]),
        ("ssm_a", &[1, 8]),
        ("ssm_d", &[1, 8]),
        ("ssm_norm.weight", &[DIM, 2]),
        ("ssm_out.weight", &[64, DIM]),
        ("ffn_norm", &[DIM]),
    ]
    .into_iter()
    .chain(BLOCK.into_iter().skip(1))
    .collect();
    Shape {
        arch: "falcon-h1",
        name: "falcon-h1",
        layers: 2,
        numbers: &numbers,
        flags: &[],
        parts: &parts,
        beside: &[LAST],
    }
    .bed()
}

/// A delta rule as Qwen3.5 has it.
fn delta() -> Bed {
    let numbers =
        [&SSM[..], &[("ssm.time_step_rank", 8), ("ssm.group_count", 2), ("full_attention_interval", 9)]].concat();
    let parts: Vec<Part<'_>> = [
        ("attn_norm.weight", &[DIM][..]),
        ("attn_qkv.weight", &[DIM, 96]),
        ("attn_gate.weight", &[DIM, 64]),
        ("ssm_alpha.weight", &[DIM, 8]),
        ("ssm_beta.weight", &[DIM, 8]),
        ("ssm_conv1d.weight", &[4, 96]),
        ("ssm_dt.bias", &[8]),
        ("ssm_a", &[8]),
        ("ssm_norm.weight", &[8]),
        ("ssm_out.weight", &[64, DIM]),
        ("post_attention_norm.weight", &[DIM]),
    ]
    .into_iter()
    .chain(BLOCK.into_iter().skip(1))
    .collect();
    Shape { arch: "qwen35", name: "qwen35", layers: 2, numbers: &numbers, flags: &[], parts: &parts, beside: &[LAST] }
        .bed()
}

/// Its layers of attention, gated by the second half of each head of the queries' product.
fn gated_attention() -> Bed {
    let numbers =
        [&SSM[..], &[("ssm.time_step_rank", 8), ("ssm.group_count", 2), ("full_attention_interval", 1)]].concat();
    let parts: Vec<Part<'_>> = [
        ("attn_norm.weight", &[DIM][..]),
        ("attn_q.weight", &[DIM, 64]),
        ("attn_k.weight", &[DIM, 16]),
        ("attn_v.weight", &[DIM, 16]),
        ("attn_q_norm.weight", &[8]),
        ("attn_k_norm.weight", &[8]),
        ("attn_output.weight", &[32, DIM]),
        ("post_attention_norm.weight", &[DIM]),
    ]
    .into_iter()
    .chain(BLOCK.into_iter().skip(1))
    .collect();
    let name = "qwen35 attention";
    Shape { arch: "qwen35", name, layers: 2, numbers: &numbers, flags: &[], parts: &parts, beside: &[LAST] }.bed()
}

/// The delta rule with both gates in one matrix, and experts, as Qwen3-Next has it.
fn delta_together() -> Bed {
    let more = [
        ("ssm.time_step_rank", 8),
        ("ssm.group_count", 2),
        ("full_attention_interval", 9),
        ("expert_count", 4),
        ("expert_used_count", 2),
        ("expert_feed_forward_length", 16),
        ("expert_shared_feed_forward_length", 16),
    ];
    let numbers = [&SSM[..], &more].concat();
    Shape {
        arch: "qwen3next",
        name: "qwen3next",
        layers: 1,
        numbers: &numbers,
        flags: &[],
        parts: &[
            ("attn_norm.weight", &[DIM]),
            ("attn_qkv.weight", &[DIM, 96]),
            ("attn_gate.weight", &[DIM, 64]),
            ("ssm_ba.weight", &[DIM, 16]),
            ("ssm_conv1d.weight", &[4, 96]),
            ("ssm_dt.bias", &[8]),
            ("ssm_a", &[8]),
            ("ssm_norm.weight", &[8]),
            ("ssm_out.weight", &[64, DIM]),
            ("post_attention_norm.weight", &[DIM]),
            ("ffn_gate_inp.weight", &[DIM, 4]),
            ("ffn_gate_exps.weight", &[DIM, 16, 4]),
            ("ffn_up_exps.weight", &[DIM, 16, 4]),
            ("ffn_down_exps.weight", &[16, DIM, 4]),
            ("ffn_gate_inp_shexp.weight", &[DIM, 1]),
            ("ffn_gate_shexp.weight", &[DIM, 16]),
            ("ffn_up_shexp.weight", &[DIM, 16]),
            ("ffn_down_shexp.weight", &[16, DIM]),
        ],
        beside: &[LAST],
    }
    .bed()
}

fn lfm2() -> Bed {
    let parts: Vec<Part<'_>> = [
        ("attn_norm.weight", &[DIM][..]),
        ("shortconv.in_proj.weight", &[DIM, 96]),
        ("shortconv.conv.weight", &[3, DIM]),
        ("shortconv.out_proj.weight", &[DIM, DIM]),
    ]
    .into_iter()
    .chain(BLOCK)
    .collect();
    let beside = [("token_embd_norm.weight", &[DIM][..])];
    let numbers = [("shortconv.l_cache", 3)];
    Shape { arch: "lfm2", name: "lfm2", layers: 2, numbers: &numbers, flags: &[], parts: &parts, beside: &beside }.bed()
}

const NORMS: [Part<'static>; 4] = [
    ("attn_norm.weight", &[DIM]),
    ("attn_norm.bias", &[DIM]),
    ("attn_norm_2.weight", &[DIM]),
    ("attn_norm_2.bias", &[DIM]),
];
const OUTER: [Part<'static>; 4] = [
    ("token_embd_norm.weight", &[DIM]),
    ("token_embd_norm.bias", &[DIM]),
    ("output_norm.weight", &[DIM]),
    ("output_norm.bias", &[DIM]),
];

fn rwkv6() -> Bed {
    let square: &[u64] = &[DIM, DIM];
    let parts: Vec<Part<'_>> = [
        ("time_mix_w1.weight", &[DIM, 40][..]),
        ("time_mix_w2.weight", &[8, DIM, 5]),
        ("time_mix_lerp_x.weight", &[DIM, 1, 1]),
        ("time_mix_lerp_fused.weight", &[DIM, 1, 1, 5]),
        ("time_mix_first.weight", &[8, 4]),
        ("time_mix_decay.weight", &[DIM]),
        ("time_mix_decay_w1.weight", &[DIM, 8]),
        ("time_mix_decay_w2.weight", &[8, DIM]),
        ("time_mix_key.weight", square),
        ("time_mix_value.weight", square),
        ("time_mix_receptance.weight", square),
        ("time_mix_gate.weight", square),
        ("time_mix_output.weight", square),
        ("time_mix_ln.weight", &[DIM]),
        ("time_mix_ln.bias", &[DIM]),
        ("channel_mix_lerp_k.weight", &[DIM, 1, 1]),
        ("channel_mix_lerp_r.weight", &[DIM, 1, 1]),
        ("channel_mix_key.weight", &[DIM, 48]),
        ("channel_mix_value.weight", &[48, DIM]),
        ("channel_mix_receptance.weight", square),
    ]
    .into_iter()
    .chain(NORMS)
    .collect();
    let numbers =
        [("wkv.head_size", 8), ("time_mix_extra_dim", 8), ("time_decay_extra_dim", 8), ("rescale_every_n_layers", 0)];
    Shape { arch: "rwkv6", name: "rwkv6", layers: 2, numbers: &numbers, flags: &[], parts: &parts, beside: &OUTER }
        .bed()
}

fn rwkv7() -> Bed {
    let square: &[u64] = &[DIM, DIM];
    let (down, up): (&[u64], &[u64]) = (&[DIM, 8], &[8, DIM]);
    let parts: Vec<Part<'_>> = [
        ("time_mix_w0.weight", &[DIM][..]),
        ("time_mix_w1.weight", down),
        ("time_mix_w2.weight", up),
        ("time_mix_a0.weight", &[DIM]),
        ("time_mix_a1.weight", down),
        ("time_mix_a2.weight", up),
        ("time_mix_v0.weight", &[DIM]),
        ("time_mix_v1.weight", down),
        ("time_mix_v2.weight", up),
        ("time_mix_g1.weight", down),
        ("time_mix_g2.weight", up),
        ("time_mix_lerp_fused.weight", &[DIM, 1, 1, 6]),
        ("time_mix_k_k.weight", &[DIM]),
        ("time_mix_k_a.weight", &[DIM]),
        ("time_mix_r_k.weight", &[DIM]),
        ("time_mix_key.weight", square),
        ("time_mix_value.weight", square),
        ("time_mix_receptance.weight", square),
        ("time_mix_output.weight", square),
        ("time_mix_ln.weight", &[DIM]),
        ("time_mix_ln.bias", &[DIM]),
        ("channel_mix_lerp_k.weight", &[DIM, 1, 1]),
        ("channel_mix_key.weight", &[DIM, 48]),
        ("channel_mix_value.weight", &[48, DIM]),
    ]
    .into_iter()
    .chain(NORMS)
    .collect();
    let rank = |of: &'static str| (of, 8);
    let numbers = [
        ("wkv.head_size", 8),
        rank("attention.decay_lora_rank"),
        rank("attention.iclr_lora_rank"),
        rank("attention.value_residual_mix_lora_rank"),
        rank("attention.gate_lora_rank"),
    ];
    Shape { arch: "rwkv7", name: "rwkv7", layers: 2, numbers: &numbers, flags: &[], parts: &parts, beside: &OUTER }
        .bed()
}

pub fn beds() -> Vec<Bed> {
    let streams = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/architectures/gemma3n/model.gguf");
    let attention = gated_attention();
    let states = [mamba(false), mamba(true), mamba2(), delta(), delta_together(), lfm2(), rwkv6(), rwkv7()];
    states.into_iter().chain([attention, Bed::open(&streams)]).collect()
}

impl Shape<'_> {
    fn bed(&self) -> Bed {
        let tiny = Tiny { arch: self.arch, layers: self.layers, dim: DIM as usize, ..Tiny::default() };
        let mut writer = Writer::new();
        for (key, value) in tiny.metadata() {
            writer.insert(key, value);
        }
        let key = |rest: &str| format!("{}.{rest}", self.arch);
        writer.insert(key("attention.layer_norm_epsilon"), 1e-5f32);
        self.numbers.iter().for_each(|(rest, number)| writer.insert(key(rest), *number));
        self.flags.iter().for_each(|rest| writer.insert(key(rest), true));
        if self.arch == "lfm2" {
            writer.insert(key("attention.head_count_kv"), Value::Array(Array::I32(vec![0; self.layers])));
        }
        let mut random = Random(6);
        let mut add = |name: String, shape: &[u64]| {
            let count = shape.iter().product::<u64>() as usize;
            let values = (0..count).map(|_| value(&name, shape, random.signed()));
            let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
            writer.tensor(&name, Format::F32, shape, bytes).unwrap();
        };
        let vocab = [DIM, Tiny::VOCAB as u64];
        add("token_embd.weight".into(), &vocab);
        if self.arch != "lfm2" {
            add("output.weight".into(), &vocab);
        }
        self.beside.iter().for_each(|(name, shape)| add((*name).to_owned(), shape));
        for layer in 0..self.layers {
            self.parts.iter().for_each(|(name, shape)| add(format!("blk.{layer}.{name}"), shape));
        }
        let gguf = Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap();
        Bed::of(self.name, gguf)
    }
}

/// A number of a tensor, from one of -1..1: rates below zero, vectors around one, matrices that keep sizes.
fn value(name: &str, shape: &[u64], noise: f32) -> f32 {
    let part = name.split('.').nth(2).unwrap_or(name);
    match part {
        "ssm_a" => -1.2 - noise,
        "token_embd" | "output" => 0.5 * noise,
        "ssm_conv1d" | "conv" if shape.len() == 2 => 0.6 * noise,
        _ if name.contains("shortconv.conv") => 0.6 * noise,
        _ if name.ends_with(".bias") || part.ends_with("0") => 0.5 * noise,
        "time_mix_decay" => -0.7 + noise,
        "time_mix_first" => 0.4 + 0.5 * noise,
        _ if part.contains("_lerp_") => 0.5 + 0.4 * noise,
        _ if shape.len() == 1 || part == "ssm_norm" || part == "ssm_d" => 0.9 + 0.5 * noise,
        _ => noise * 1.8 / (shape[0] as f32).sqrt(),
    }
}
