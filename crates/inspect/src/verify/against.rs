//! Our run against another program's trace of the same tokens: every named value, with what the inputs' rounding of that
//! program may have added up to by then.

use std::collections::BTreeMap;

use candor::{Format, Logits, Model, Observed, Observer, Role, Rounding, SessionOptions};
use candor_ops::{CHOSEN, KvFormat};
use candor_verify::{FLOOR, input_step};

use super::{
    error::VerifyError,
    report::{Against, Compared, VerifyReport},
};
use crate::{Evidence, Key, Known, Trace};

/// Relative error of a file whose products round nothing: another order of the sums, over all layers.
const EXACT: f64 = 1e-4;
/// Relative error per layer in multiples of the rounding step of 8-bit inputs (1/120), of one side that rounds blocks of 32:
/// measured in a model of high gain.
const STEPS_PER_LAYER: f64 = 3.1;
/// How much larger the largest of 256 inputs is than that of 32.
const LONG_BLOCKS: f64 = 1.36;
/// The same of two sides, of which the other rounds K-quants' inputs in blocks of 256: 3.1 * sqrt(1 + 1.36^2).
const BLOCKS_PER_LAYER: f64 = 5.2;
/// The same of half-precision inputs, whose step is relative to each element rather than to a block's largest.
const FLOATS_PER_LAYER: f64 = 1.0;
/// The allowance grows no further: errors of a wrong operation are larger.
const MOST: f64 = 0.3;
/// Rows of an embedding are copied.
const COPIED: f64 = 1e-6;
/// Names of the value before the first layer.
const EMBEDDINGS: &[&str] = &["inp_embd", "embd"];

/// Whether a value has a part for each expert of a token, or tells which they are.
fn is_of_experts(name: &str) -> bool {
    let parts = ["gate", "up", "swiglu", "act", "down", "weighted"];
    CHOSEN.contains(&name) || name.strip_prefix("ffn_moe_").is_some_and(|part| parts.contains(&part))
}

/// Our rows of the values that the trace has.
struct Ours<'a> {
    trace: &'a Trace,
    /// In the order of computation.
    order: Vec<&'static str>,
    rows: BTreeMap<Key, BTreeMap<usize, Vec<f32>>>,
}

impl Observer for Ours<'_> {
    fn wants(&mut self, name: &'static str, layer: Option<usize>) -> bool {
        !is_of_experts(name) && self.trace.values.contains_key(&Key::new(name, layer))
    }

    fn value(&mut self, observed: &Observed<'_>) {
        if !self.order.contains(&observed.name) {
            self.order.push(observed.name);
        }
        let rows = self.rows.entry(Key::new(observed.name, observed.layer)).or_default();
        let width = observed.values.len() / observed.rows.max(1);
        for (i, row) in observed.values.chunks_exact(width.max(1)).enumerate() {
            let t = if observed.name == "result_output" { observed.step.outputs[i] as usize } else { i };
            rows.insert(observed.step.positions[t] as usize, row.to_vec());
        }
    }
}

/// Runs the trace's tokens and compares every value that both have.
pub(super) fn compare(
    model: &Model,
    trace: &Trace,
    report: &VerifyReport,
    (keys, values): (KvFormat, KvFormat),
) -> Result<Against, VerifyError> {
    let (tokens, prompt) = (&report.tokens, report.prompt_tokens);
    let mut against =
        Against { oracle: oracle(trace), refused: refusal(trace, report), names: Vec::new(), left_out: Vec::new() };
    let mut ours = Ours { trace, order: Vec::new(), rows: BTreeMap::new() };
    let context = (tokens.len() + 1).max(report.text.len());
    let options = SessionOptions::default().context(context).fit(false).keys(keys).values(values);
    let mut session = model.session(&options)?;
    if !report.text.is_empty() {
        session.observe_text(&report.text, &mut ours)?;
    }
    session.observe(&tokens[..prompt], Role::Prefill, Logits::All, &mut ours)?;
    for token in &tokens[prompt..] {
        session.observe(&[*token], Role::Decode, Logits::All, &mut ours)?;
    }
    let noise = Noise::of(model, [keys, values]);
    let mut names: Vec<(usize, Compared)> = Vec::new();
    for (key, theirs) in &trace.values {
        if is_of_experts(&key.name) {
            against.left_out.push((key.clone(), "the experts may be others, or in another order".to_owned()));
            continue;
        }
        let Some(rows) = ours.rows.get(key) else {
            against.left_out.push((key.clone(), "Candor has no value of this name".to_owned()));
            continue;
        };
        let bound = noise.bound(key, model.config().layers);
        let found = match difference(rows, theirs, tokens.len()) {
            Difference::Nothing(why) => {
                against.left_out.push((key.clone(), why));
                continue;
            }
            Difference::Elements(elements, error) => Compared {
                name: key.name.clone(),
                values: 1,
                elements,
                worst: key.clone(),
                error: error.is_finite().then_some(error),
                bound,
            },
        };
        let place = ours.order.iter().position(|name| *name == key.name).unwrap_or(usize::MAX);
        match names.iter_mut().find(|(at, _)| *at == place) {
            None => names.push((place, found)),
            Some((_, sofar)) => {
                let (values, elements) = (sofar.values + 1, sofar.elements + found.elements);
                if found.ratio() > sofar.ratio() {
                    *sofar = found;
                }
                (sofar.values, sofar.elements) = (values, elements);
            }
        }
    }
    names.sort_by_key(|(place, _)| *place);
    against.names = names.into_iter().map(|(_, compared)| compared).collect();
    if against.names.is_empty() {
        against.refused.get_or_insert_with(|| "it has no value that could be compared".to_owned());
    }
    Ok(against)
}

fn oracle(trace: &Trace) -> String {
    let engine = trace.origin.engine.as_deref().unwrap_or("an unnamed engine");
    let backend = trace.origin.backend.as_ref().map(|backend| format!(", {backend}")).unwrap_or_default();
    format!("trace of {engine}{backend}")
}

/// Why a trace proves nothing about this run.
fn refusal(trace: &Trace, report: &VerifyReport) -> Option<String> {
    let engine = trace.origin.engine.as_deref().unwrap_or_default();
    let name = engine.split([' ', '/']).next().unwrap_or_default();
    // The number of threads does not make another backend.
    let backend =
        |label: &str| label.split(", ").filter(|part| !part.contains("thread")).collect::<Vec<_>>().join(", ");
    let theirs = trace.origin.backend.as_deref().map(backend);
    if name.eq_ignore_ascii_case("candor") && theirs.is_none_or(|theirs| theirs == backend(&report.device)) {
        return Some("compared with itself: not a proof".to_owned());
    }
    let hash = trace.origin.model_sha256.as_deref()?;
    let known =
        report.files.iter().any(|file| file.sha256.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(hash)));
    (!known && !report.files.is_empty()).then(|| format!("it is of another file, of SHA-256 {hash}"))
}

/// What a program that rounds inputs to the weights' kind may be off by.
pub(super) struct Noise {
    per_layer: f64,
}

impl Noise {
    fn of(model: &Model, cache: [KvFormat; 2]) -> Noise {
        let matrices = model.gguf().tensors().iter().filter(|tensor| tensor.shape.get(1).is_some_and(|&rows| rows > 1));
        let per_layer = matrices.map(|tensor| {
            let blocks = tensor.format.block_len() > 1;
            input_step(tensor.format) * if blocks { BLOCKS_PER_LAYER } else { FLOATS_PER_LAYER }
        });
        let cache = cache.into_iter().filter(|&format| format != KvFormat::F32);
        let cache = cache.map(|format| input_step(format.format())).fold(0.0, f64::max);
        Noise { per_layer: per_layer.fold(cache, f64::max) }
    }

    /// What the logits of prompts and those of decoding may be apart: each rounds in its own way, and what a layer adds is
    /// independent of what the others do. `None` where it is not known how they round.
    pub(super) fn of_roles(model: &Model) -> Option<f64> {
        let matrices = model.gguf().tensors().iter().filter(|tensor| tensor.shape.get(1).is_some_and(|&rows| rows > 1));
        let mut most = 0f64;
        for tensor in matrices {
            let mut squares = 0.0;
            for role in [Role::Prefill, Role::Decode] {
                squares += per_layer(model.rounding(tensor.format, role)?).powi(2);
            }
            most = most.max(squares.sqrt());
        }
        // The head is one more product.
        let products = (model.config().layers + 1) as f64;
        Some((most * products.sqrt()).clamp(EXACT, MOST))
    }

    fn bound(&self, key: &Key, layers: usize) -> f64 {
        if EMBEDDINGS.contains(&key.name.as_str()) {
            return COPIED;
        }
        // The head is one more product.
        let passed = key.layer.unwrap_or(layers) + 1;
        (self.per_layer * passed as f64).clamp(EXACT, MOST)
    }
}

/// Relative error that a layer's products add.
fn per_layer(rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Exact => 0.0,
        Rounding::Blocks(len) => input_step(Format::Q8_0) * if len > 32 { LONG_BLOCKS } else { 1.0 } * STEPS_PER_LAYER,
        // Inputs and weights.
        Rounding::Bfloat => input_step(Format::Bf16) * FLOATS_PER_LAYER * std::f64::consts::SQRT_2,
        Rounding::Halves => input_step(Format::F16) * FLOATS_PER_LAYER * std::f64::consts::SQRT_2,
        // Twice as many bits as one bfloat16 has.
        _ => input_step(Format::Bf16).powi(2) * FLOATS_PER_LAYER,
    }
}

enum Difference {
    /// Elements compared and the error; not finite where the shapes differ or a value is no number.
    Elements(usize, f64),
    /// Nothing could be compared; why.
    Nothing(String),
}

/// Compares what is known of a value with our rows.
fn difference(ours: &BTreeMap<usize, Vec<f32>>, theirs: &Evidence, tokens: usize) -> Difference {
    let width = ours.values().next().map_or(0, Vec::len);
    if theirs.width != 0 && theirs.width != width {
        return Difference::Elements(0, f64::INFINITY);
    }
    let known: Vec<(usize, usize, f32)> = match &theirs.known {
        Known::All(values) => {
            let rows: Vec<usize> = match (&theirs.rows, values.len() / width.max(1)) {
                (Some(rows), _) => rows.clone(),
                (None, count) if count == tokens => (0..tokens).collect(),
                (None, 1) => vec![tokens - 1],
                (None, count) => return Difference::Nothing(format!("{count} rows, and it is not said which")),
            };
            let rows = rows.into_iter().zip(values.chunks_exact(width.max(1)));
            rows.flat_map(|(row, values)| values.iter().enumerate().map(move |(i, &x)| (row, i, x))).collect()
        }
        Known::Some(points) => {
            let rows = theirs.rows.clone().unwrap_or_else(|| (0..tokens).collect());
            let place = |at: i64, len: usize| {
                let at = if at < 0 { at.checked_add_unsigned(len as u64)? } else { at };
                usize::try_from(at).ok().filter(|&at| at < len)
            };
            let point = |&(row, column, x): &(i64, i64, f32)| {
                Some((*rows.get(place(row, rows.len())?)?, place(column, width)?, x))
            };
            points.iter().filter_map(point).collect()
        }
    };
    let (mut sum, mut count) = (0.0, 0);
    let mut scales: BTreeMap<usize, f64> = BTreeMap::new();
    for (row, column, x) in known {
        let Some(values) = ours.get(&row) else { continue };
        let scale = *scales.entry(row).or_insert_with(|| {
            let squares: f64 = values.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
            (squares / values.len() as f64).sqrt().max(FLOOR)
        });
        let apart = (f64::from(values[column]) - f64::from(x)).abs();
        // What was printed with few places says no more than that.
        let apart = if apart.is_nan() { apart } else { (apart - theirs.precision).max(0.0) };
        sum += (apart / scale).powi(2);
        count += 1;
    }
    match count {
        0 => Difference::Nothing("none of its elements are among ours".to_owned()),
        _ => Difference::Elements(count, (sum / count as f64).sqrt()),
    }
}
