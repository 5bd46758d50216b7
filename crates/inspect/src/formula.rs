//! Operations that no fault of the catalogue changes, recomputed by the definition itself: the reference backend, on values
//! of a trace.

use std::{fmt, rc::Rc, sync::Arc};

use candor::ops::{
    Columns, Decay, KvFormat, KvPlan, LayerCache, Norm, Prims, Recurrence, Reference, Step, Tensor, Unary,
};

use crate::{Value, replay::Tokens};

type Rows = <Reference as Prims>::Buf;
type Matrix = <Reference as Prims>::Weight;
type Run = dyn Fn(&[Rc<Value>], &Tokens) -> Value + Send + Sync;

/// An operation as a function of its inputs.
#[derive(Clone)]
pub struct Formula {
    /// The operation, in ggml's words where it has them.
    pub name: &'static str,
    /// The weight that it reads, where it reads one.
    pub weight: Option<Tensor>,
    run: Arc<Run>,
}

impl fmt::Debug for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Formula").field("name", &self.name).field("weight", &self.weight).finish_non_exhaustive()
    }
}

impl Formula {
    fn new(
        name: &'static str,
        weight: Option<&Tensor>,
        run: impl Fn(&[Rc<Value>], &Tokens) -> Value + Send + Sync + 'static,
    ) -> Formula {
        Formula { name, weight: weight.cloned(), run: Arc::new(run) }
    }

    /// The output over all tokens of a trace.
    pub(crate) fn run(&self, inputs: &[Rc<Value>], tokens: &Tokens) -> Value {
        (self.run)(inputs, tokens)
    }
}

/// A sum or scaling by chosen experts.
pub(crate) enum Weighted {
    /// Addition of their biases.
    Bias(Tensor),
    /// Multiplication by their weights.
    Scale,
    /// Sum of so many.
    Sum(usize),
}

fn rows(value: &Value) -> Rows {
    let mut rows = Reference.buffer(value.rows, value.width);
    Reference.upload(&mut rows, value.rows, &value.data);
    rows
}

fn value(x: &Rows, width: usize) -> Value {
    let mut data = Vec::new();
    Reference.download(&Reference.snapshot(x), &mut data);
    Value { rows: data.len() / width.max(1), width, data }
}

/// A weight; a trace's model has been checked, so that its bytes are as many as they must be.
fn matrix(tensor: &Tensor) -> Option<Matrix> {
    Reference.weight(tensor.clone()).ok()
}

/// Calls `f` with the step that all tokens of a trace make together.
fn step<T>(tokens: &Tokens, f: impl FnOnce(&Step) -> T) -> T {
    let sequences = vec![0; tokens.ids.len()];
    f(&Step { tokens: &tokens.ids, positions: &tokens.positions, sequences: &sequences, outputs: &[] })
}

/// A cache of one layer, exact, with room for the tokens.
fn cache(layer: LayerCache, tokens: &Tokens) -> <Reference as Prims>::Kv {
    let context = tokens.positions.iter().max().map_or(1, |&last| last as usize + 1);
    let (keys, values) = (KvFormat::F32, KvFormat::F32);
    Reference.kv(&KvPlan { layers: vec![layer], context, step: context, sequences: 1, keys, values })
}

/// Changes the first input in place.
fn changed(inputs: &[Rc<Value>], f: impl FnOnce(&mut Rows)) -> Value {
    let mut x = rows(&inputs[0]);
    f(&mut x);
    value(&x, inputs[0].width)
}

pub(crate) fn norm(norm: Norm, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Formula {
    let (w, b) = (weight.and_then(matrix), bias.and_then(matrix));
    Formula::new("norm", weight.or(bias), move |inputs, _| {
        changed(inputs, |x| Reference.norm(x, norm, w.as_ref(), b.as_ref()))
    })
}

/// The function in ggml's words where it has them.
pub(crate) fn unary_name(f: Unary) -> &'static str {
    match f {
        Unary::Gelu | Unary::GeluErf => "gelu",
        Unary::GeluQuick => "gelu_quick",
        Unary::Relu | Unary::ReluSquared => "relu",
        Unary::Sigmoid => "sigmoid",
        Unary::Tanh => "tanh",
        Unary::Softplus => "softplus",
        Unary::Exp => "exp",
        Unary::Affine { .. } => "scale",
        Unary::Clamp { .. } => "clamp",
        Unary::SoftCap(_) => "softcap",
        Unary::Xielu { .. } => "xielu",
        Unary::Silu => "silu",
    }
}

pub(crate) fn copy(columns: Columns, width: usize) -> Formula {
    Formula::new("cpy", None, move |inputs, _| {
        let x = rows(&inputs[0]);
        let mut out = inputs.get(1).map_or_else(|| Reference.buffer(inputs[0].rows, width), |before| rows(before));
        Reference.copy(&mut out, &x, columns);
        value(&out, width)
    })
}

pub(crate) fn add_positions(table: &Tensor) -> Formula {
    let w = matrix(table);
    Formula::new("add", Some(table), move |inputs, tokens| {
        changed(inputs, |x| {
            w.iter().for_each(|w| step(tokens, |step| Reference.add_positions(x, w, step)));
        })
    })
}

pub(crate) fn mul_columns(weight: &Tensor) -> Formula {
    let w = matrix(weight);
    Formula::new("mul", Some(weight), move |inputs, _| {
        changed(inputs, |x| w.iter().for_each(|w| Reference.mul_columns(x, w)))
    })
}

pub(crate) fn mul_groups() -> Formula {
    Formula::new("mul", None, |inputs, _| changed(inputs, |x| Reference.mul_groups(x, &rows(&inputs[1]))))
}

pub(crate) fn dot_groups(width: usize) -> Formula {
    Formula::new("dot", None, move |inputs, _| {
        let mut out = Reference.buffer(inputs[0].rows, width);
        Reference.dot_groups(&mut out, &rows(&inputs[0]), &rows(&inputs[1]));
        value(&out, width)
    })
}

pub(crate) fn conv(weight: &Tensor) -> Formula {
    let (w, taps) = (matrix(weight), weight.cols);
    Formula::new("ssm_conv", Some(weight), move |inputs, tokens| {
        let width = inputs[0].width;
        let mut out = Reference.buffer(inputs[0].rows, width);
        let states = [taps.saturating_sub(1) * width, 0, 0];
        let mut kv = cache(LayerCache { states, ..LayerCache::default() }, tokens);
        let x = rows(&inputs[0]);
        if let Some(w) = &w {
            step(tokens, |step| Reference.conv(&mut out, &mut kv, (0, 0), &x, w, step));
        }
        value(&out, width)
    })
}

/// How a state fades, without its buffer.
enum Fading {
    Keys,
    Heads,
    Rates(Option<Matrix>),
}

pub(crate) fn recur<B>(inputs: &Recurrence<'_, Tensor, B>) -> Formula {
    let Recurrence { heads, key_heads, key_dim, value_dim, erase, bonus, .. } = *inputs;
    let erases = erase.is_some();
    let fading = match inputs.decay {
        Decay::Keys(_) => Fading::Keys,
        Decay::Heads(_) => Fading::Heads,
        Decay::Rates { rate, .. } => Fading::Rates(matrix(rate)),
    };
    let (weight, len) = (bonus, inputs.state_len());
    let bonus = bonus.and_then(matrix);
    Formula::new("recur", weight, move |inputs, tokens| {
        let x: Vec<Rows> = inputs.iter().map(|input| rows(input)).collect();
        let width = heads * value_dim;
        let mut out = Reference.buffer(inputs[0].rows, width);
        let mut kv = cache(LayerCache { states: [len, 0, 0], ..LayerCache::default() }, tokens);
        let decay = match &fading {
            Fading::Keys => Decay::Keys(&x[3]),
            Fading::Heads => Decay::Heads(&x[3]),
            Fading::Rates(Some(rate)) => Decay::Rates { time: &x[3], rate },
            Fading::Rates(None) => return value(&out, width),
        };
        let erase = erases.then(|| (&x[4], &x[5]));
        let (q, k, v, bonus) = (&x[0], &x[1], &x[2], bonus.as_ref());
        let inputs = Recurrence { heads, key_heads, key_dim, value_dim, q, k, v, decay, erase, bonus };
        step(tokens, |step| Reference.recur(&mut out, &mut kv, (0, 0), inputs, step));
        value(&out, width)
    })
}

pub(crate) fn experts(by: Weighted) -> Formula {
    let (name, weight) = match &by {
        Weighted::Bias(tensor) => ("add_id", Some(tensor.clone())),
        Weighted::Scale => ("mul", None),
        Weighted::Sum(_) => ("add", None),
    };
    let w = weight.as_ref().and_then(matrix);
    Formula::new(name, weight.as_ref(), move |inputs, _| {
        let routes = inputs.last().expect("the choice is an input");
        let used = routes.width / 2;
        let pairs = routes.data.chunks_exact(2).map(|pair| (pair[0] as usize, f64::from(pair[1]))).collect();
        let routes = Reference.routed(used, pairs);
        let x = rows(&inputs[0]);
        match (&by, &w) {
            (Weighted::Bias(_), Some(w)) => changed(inputs, |x| Reference.add_bias_experts(x, w, &routes)),
            (Weighted::Scale, _) => changed(inputs, |x| Reference.scale_experts(x, &routes)),
            (Weighted::Sum(used), _) => {
                let mut out = Reference.buffer(routes.len() / used, inputs[0].width);
                Reference.sum_experts(&mut out, &x, &routes);
                value(&out, inputs[0].width)
            }
            (Weighted::Bias(_), None) => (*inputs[0]).clone(),
        }
    })
}
