//! Faults of single numbers and switches: scales, caps, how halves of layers are connected, experts' weights.

use crate::doctor::likelihood::{
    change::Change,
    repair::{Attempt, Conversion, Repair},
};

fn scores(file: &Conversion<'_>) -> Vec<Attempt> {
    const END: &str = "attention.scale";
    let heads = file.heads;
    if heads.heads == 0 {
        return Vec::new();
    }
    let width = heads.key_dim as f32;
    let mut numbers = vec![1.0 / width.sqrt(), 1.0 / width, 1.0, width.sqrt().recip().sqrt()];
    numbers.push((heads.heads as f32 / file.dim as f32).sqrt());
    numbers.dedup();
    let other = |number: &f32| (number - heads.scale).abs() > 1e-6 * heads.scale;
    numbers.into_iter().filter(other).map(|number| file.set(END, number)).collect()
}

fn scales(file: &Conversion<'_>) -> Vec<Attempt> {
    let root = (file.dim as f32).sqrt();
    let mut attempts: Vec<Attempt> =
        ["logit_scale", "residual_scale", "embedding_scale"].into_iter().filter_map(|end| file.unset(end)).collect();
    let now = file.float("embedding_scale");
    attempts.extend(
        [root, 1.0 / root]
            .into_iter()
            .filter(|&scale| Some(scale) != now)
            .map(|scale| file.set("embedding_scale", scale)),
    );
    attempts.extend(
        file.float("logit_scale").filter(|&scale| scale != 0.0).map(|scale| file.set("logit_scale", 1.0 / scale)),
    );
    attempts
}

fn caps(file: &Conversion<'_>) -> Vec<Attempt> {
    let ends = [("attn_logit_softcapping", 50.0f32), ("final_logit_softcapping", 30.0)];
    let attempt = |(end, cap): (&str, f32)| match file.float(end).filter(|&cap| cap != 0.0) {
        Some(_) => file.set(end, 0.0f32),
        None => file.set(end, cap),
    };
    ends.map(attempt).into()
}

fn switches(file: &Conversion<'_>) -> Vec<Attempt> {
    let flip = |end: &&str| {
        let now = file.gguf.metadata().bool(&file.key(end)).ok().flatten()?;
        Some(file.set(end, !now))
    };
    ["use_parallel_residual", "expert_weights_norm"].iter().filter_map(flip).collect()
}

fn experts(file: &Conversion<'_>) -> Vec<Attempt> {
    let metadata = file.gguf.metadata();
    let whole = |end: &str| metadata.u32(&file.key(end)).ok().flatten();
    let Some(all) = whole("expert_count").filter(|&all| all > 0) else { return Vec::new() };
    let mut attempts: Vec<Attempt> = file.unset("expert_weights_scale").into_iter().collect();
    if let Some(used) = whole("expert_used_count") {
        let others = [1, 2, 4, 6, 8, 10].into_iter().filter(|&count| count != used && count <= all);
        attempts.extend(others.map(|count: u32| file.set("expert_used_count", count)));
    }
    // 1 is softmax, 2 the sigmoid.
    if let Some(gate) = whole("expert_gating_func").filter(|gate| matches!(gate, 1 | 2)) {
        attempts.push(file.set("expert_gating_func", 3 - gate));
    }
    attempts
}

fn clamps(file: &Conversion<'_>) -> Vec<Attempt> {
    ["attention.clamp_kqv", "attention.max_alibi_bias"].into_iter().filter_map(|end| file.unset(end)).collect()
}

fn states(file: &Conversion<'_>) -> Vec<Attempt> {
    let mut names = file.of_layers("ssm_a");
    names.extend(file.of_layers("ssm_a.weight"));
    // What fades is below zero; logarithms are of both signs.
    let is_log = |name: &String| {
        let Some(info) = file.gguf.tensor(name) else { return false };
        let Ok(data) = file.gguf.read_data(info) else { return false };
        let mut values = vec![0.0; info.elements() as usize];
        info.format.decode(&data, &mut values);
        values.iter().any(|&value| value > 0.0)
    };
    if names.is_empty() || !names.iter().all(is_log) {
        return Vec::new();
    }
    let changes = names.into_iter().map(Change::NegativeExp).collect();
    vec![Attempt::new("ssm_a", "-exp of it", changes)]
}

fn embeddings(file: &Conversion<'_>) -> Vec<Attempt> {
    const NAME: &str = "token_embd.weight";
    let root = (file.dim as f32).sqrt();
    let scaled = |(factor, way): (f32, &str)| Attempt::new(NAME, way, vec![Change::Multiply(NAME.to_owned(), factor)]);
    let ways = [
        (1.0 / root, "embeddings divided by the root of their width"),
        (root, "embeddings times the root of their width"),
    ];
    ways.map(scaled).into()
}

/// The rows.
pub(super) const REPAIRS: &[Repair] = &[
    Repair {
        name: "attention-scale",
        cause: "attention's scores are scaled otherwise than in training",
        remedy: "write the model's scale as attention.scale, where it is not 1 / sqrt(head_dim)",
        attempts: scores,
    },
    Repair {
        name: "scales",
        cause: "embeddings, halves of layers or logits are scaled otherwise than in training",
        remedy: "write the multipliers of the checkpoint's config.json as embedding_scale, residual_scale and logit_scale",
        attempts: scales,
    },
    Repair {
        name: "soft-caps",
        cause: "scores or logits are capped otherwise than in training",
        remedy: "write attn_logit_softcapping and final_logit_softcapping of the checkpoint's config.json",
        attempts: caps,
    },
    Repair {
        name: "switches",
        cause: "a switch of the model is set otherwise than in training",
        remedy: "write it as the checkpoint's config.json has it",
        attempts: switches,
    },
    Repair {
        name: "experts",
        cause: "experts are chosen or weighed otherwise than in training",
        remedy: "write num_experts_per_tok, the scoring function and the factor of the checkpoint's config.json",
        attempts: experts,
    },
    Repair {
        name: "clamps-and-biases",
        cause: "queries, keys and values are clamped, or distances weighed, which training did not",
        remedy: "write clip_qkv and alibi of the checkpoint's config.json, and only where they are there",
        attempts: clamps,
    },
    Repair {
        name: "state-decay",
        cause: "the decay of states is kept as its logarithm",
        remedy: "write -exp(A_log) as ssm_a",
        attempts: states,
    },
    Repair {
        name: "embedding-scale",
        cause: "the embeddings were scaled by the converter, or twice, or not at all",
        remedy: "write the embeddings as the checkpoint has them; Gemma's are scaled when the model runs",
        attempts: embeddings,
    },
];
