//! Faults of positions and of what a token sees: rotation, windows, what begins a text.

use candor_gguf::Value;

use crate::doctor::likelihood::{
    change::Change,
    repair::{Attempt, Conversion, Repair},
};

/// The bases that released models have, and those that converters write where a checkpoint names none.
const BASES: [f32; 9] =
    [10_000.0, 25_000.0, 50_000.0, 100_000.0, 500_000.0, 1_000_000.0, 5_000_000.0, 8_000_000.0, 10_000_000.0];
/// Factors of linear scaling: powers of two up to Llama 3.2's.
const FACTORS: [f32; 5] = [2.0, 4.0, 8.0, 16.0, 32.0];
/// Windows of released models; longer ones than the text's windows do nothing.
const WINDOWS: [u32; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];
/// What `rope.scaling` has besides its factor.
const SCALING: [&str; 3] = ["rope.scaling.type", "rope.scaling.factor", "rope.scale_linear"];

/// Whether the model's positions are rotated, as far as its tensors and keys tell.
fn rotates(file: &Conversion<'_>) -> bool {
    file.heads.heads > 0 && file.gguf.tensor("position_embd.weight").is_none()
}

fn bases(file: &Conversion<'_>) -> Vec<Attempt> {
    let now = file.float("rope.freq_base").unwrap_or(BASES[0]);
    let others = BASES.iter().filter(|&&base| base != now);
    if rotates(file) { others.map(|&base| file.set("rope.freq_base", base)).collect() } else { Vec::new() }
}

fn window_bases(file: &Conversion<'_>) -> Vec<Attempt> {
    let windows = rotates(file) && file.says("attention.sliding_window");
    let now = file.float("rope.freq_base_swa");
    let others = BASES.iter().filter(|&&base| Some(base) != now);
    if windows { others.map(|&base| file.set("rope.freq_base_swa", base)).collect() } else { Vec::new() }
}

fn scaling(file: &Conversion<'_>) -> Vec<Attempt> {
    let there: Vec<&str> = SCALING.into_iter().filter(|end| file.says(end)).collect();
    if !rotates(file) {
        return Vec::new();
    }
    if there.is_empty() {
        let linear = |&factor: &f32| {
            let changes = vec![
                Change::Set(file.key(SCALING[0]), Value::from("linear")),
                Change::Set(file.key(SCALING[1]), Value::from(factor)),
            ];
            Attempt::new(file.key(SCALING[1]), format!("linear, factor {factor}"), changes)
        };
        return FACTORS.iter().map(linear).collect();
    }
    let unset = there.iter().map(|end| Change::Unset(file.key(end))).collect();
    let mut attempts = vec![Attempt::new(file.key("rope.scaling"), "without scaling", unset)];
    attempts.extend(file.set_each(SCALING[1], &FACTORS));
    attempts
}

fn factors(file: &Conversion<'_>) -> Vec<Attempt> {
    const NAME: &str = "rope_freqs.weight";
    if file.gguf.tensor(NAME).is_some() {
        return vec![Attempt::new(NAME, "without the factors", vec![Change::Leave(NAME.to_owned())])];
    }
    let pairs = file.float("rope.dimension_count").map_or(file.heads.key_dim, |dims| dims as usize) / 2;
    if !rotates(file) || file.says(SCALING[0]) || pairs == 0 {
        return Vec::new();
    }
    let base = file.float("rope.freq_base").unwrap_or(BASES[0]);
    let llama3 = |factor: f32| {
        let numbers = (0..pairs).map(|pair| llama3_factor(base, pair, pairs, factor)).collect();
        Attempt::new(NAME, format!("Llama 3's, factor {factor}"), vec![Change::Insert(NAME.to_owned(), numbers)])
    };
    [8.0, 32.0].map(llama3).into()
}

/// Llama 3's divisor of a pair's frequency, with its released numbers: 8192 positions, 1 and 4 turns.
fn llama3_factor(base: f32, pair: usize, pairs: usize, factor: f32) -> f32 {
    const CONTEXT: f32 = 8192.0;
    let turns = CONTEXT * base.powf(-(pair as f32) / pairs as f32) / std::f32::consts::TAU;
    if turns < 1.0 {
        factor
    } else if turns > 4.0 {
        1.0
    } else {
        let smooth = (turns - 1.0) / 3.0;
        1.0 / ((1.0 - smooth) / factor + smooth)
    }
}

fn dimensions(file: &Conversion<'_>) -> Vec<Attempt> {
    let whole = file.heads.key_dim;
    let now = file.float("rope.dimension_count").map_or(whole, |dims| dims as usize);
    let mut shares: Vec<usize> =
        [1.0, 0.75, 0.5, 0.4, 0.25].iter().map(|share| (share * whole as f64) as usize).collect();
    shares.retain(|&dims| dims != now && dims >= 2 && dims.is_multiple_of(2));
    if !rotates(file) {
        return Vec::new();
    }
    shares.into_iter().map(|dims| file.set("rope.dimension_count", dims as u32)).collect()
}

fn windows(file: &Conversion<'_>) -> Vec<Attempt> {
    const END: &str = "attention.sliding_window";
    let now = file.float(END).filter(|&window| window > 0.0);
    let mut attempts: Vec<Attempt> = now.and_then(|_| file.unset(END)).into_iter().collect();
    let short = |&&window: &&u32| Some(window as f32) != now && (window as usize) < file.window;
    if file.heads.heads > 0 {
        attempts.extend(WINDOWS.iter().filter(short).map(|&window| file.set(END, window)));
    }
    attempts
}

fn patterns(file: &Conversion<'_>) -> Vec<Attempt> {
    const END: &str = "attention.sliding_window_pattern";
    if !file.says("attention.sliding_window") {
        return Vec::new();
    }
    let every = |period: usize, full: usize| {
        let limited: Vec<bool> = (0..file.layers).map(|layer| layer % period != full).collect();
        let which = if full == 0 { "first" } else { "last" };
        let detail = format!("the {which} of every {period} layers sees all");
        Attempt::new(file.key(END), detail, vec![Change::Set(file.key(END), Value::from(limited))])
    };
    let mut attempts: Vec<Attempt> = (2..=6).flat_map(|period| [every(period, period - 1), every(period, 0)]).collect();
    attempts.push(Attempt::new(
        file.key(END),
        "every layer has the window",
        vec![Change::Set(file.key(END), Value::from(vec![true; file.layers]))],
    ));
    attempts
}

fn beginning(file: &Conversion<'_>) -> Vec<Attempt> {
    const KEY: &str = "tokenizer.ggml.add_bos_token";
    let metadata = file.gguf.metadata();
    let adds = candor::Tokenizer::from_metadata(metadata).ok().map(|tokenizer| tokenizer.add_bos());
    let Some(adds) = adds.filter(|_| metadata.get("tokenizer.ggml.bos_token_id").is_some()) else { return Vec::new() };
    vec![Attempt::new(KEY, format!("{}", !adds), vec![Change::Set(KEY.to_owned(), Value::from(!adds))])]
}

fn learned(file: &Conversion<'_>) -> Vec<Attempt> {
    const NAME: &str = "position_embd.weight";
    let Some(rows) = file.rows(NAME).filter(|&rows| rows > 4) else { return Vec::new() };
    let shifted = |by: isize| {
        let order = (0..rows).map(|row| row.saturating_add_signed(by).min(rows - 1)).collect();
        let change = Change::Rows { tensor: NAME.to_owned(), of: vec![NAME.to_owned()], order };
        Attempt::new(NAME, format!("from row {by} on"), vec![change])
    };
    [1, 2, -1, -2].map(shifted).into()
}

/// The rows.
pub(super) const REPAIRS: &[Repair] = &[
    Repair {
        name: "rope-base",
        cause: "the base of rotary positions is another one than in training",
        remedy: "write rope_theta of the checkpoint's config.json as rope.freq_base",
        attempts: bases,
    },
    Repair {
        name: "rope-base-of-windows",
        cause: "layers with a window rotate with another base than in training",
        remedy: "write rope_local_base_freq of the checkpoint's config.json as rope.freq_base_swa",
        attempts: window_bases,
    },
    Repair {
        name: "rope-scaling",
        cause: "positions are scaled otherwise than in training",
        remedy: "write rope_scaling of the checkpoint's config.json as it is",
        attempts: scaling,
    },
    Repair {
        name: "rope-factors",
        cause: "the factors of rotary frequencies are not those of training",
        remedy: "write rope_freqs.weight for rope_scaling of type llama3, and for no other",
        attempts: factors,
    },
    Repair {
        name: "rope-dimensions",
        cause: "another share of each head is rotated than in training",
        remedy: "write head_dim * partial_rotary_factor as rope.dimension_count",
        attempts: dimensions,
    },
    Repair {
        name: "sliding-window",
        cause: "layers see another window than in training",
        remedy: "write sliding_window of the checkpoint's config.json, where use_sliding_window does not say no",
        attempts: windows,
    },
    Repair {
        name: "sliding-window-pattern",
        cause: "other layers have the window than in training",
        remedy: "write layer_types of the checkpoint's config.json as attention.sliding_window_pattern",
        attempts: patterns,
    },
    Repair {
        name: "beginning-of-text",
        cause: "texts begin otherwise than in training",
        remedy: "write add_bos_token of the checkpoint's tokenizer_config.json",
        attempts: beginning,
    },
    Repair {
        name: "learned-positions",
        cause: "the table of learned positions begins at another row than in training",
        remedy: "leave out the rows before the first position, and no others",
        attempts: learned,
    },
];
