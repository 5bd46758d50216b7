//! Replay: operations recomputed from formulas, each from values that a trace already holds where it does, rightly or
//! with faults planted.

mod cache;
mod choice;
mod noise;
mod place;
mod plan;
mod rounding;
mod simple;
mod states;
mod tokens;
mod weight;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    sync::Arc,
};

use candor::{Format, Gguf};
use candor_ops::Unary;

use crate::{
    Graph, Kind, Node, NodeId, Trace, Value,
    fault::{Active, Edit},
};

pub use cache::Cache;
pub(crate) use cache::TURN;
pub use noise::Noise;
pub use place::Place;
pub(crate) use plan::across;
pub use plan::{
    Axis, Choice, Divisor, Embed, Masking, Mix, Norm, Positions, Scope, Scores, SoftMax, Source, Turn, Weighing,
};
pub use rounding::Rounding;
pub use states::{Conv, Fading, Recur, Recurring};
pub use tokens::{Side, Tokens};
pub use weight::{Decoded, Matrix, Order};

/// How replay computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arithmetic {
    /// Of activations before products.
    pub rounding: Rounding,
    /// Of sums.
    pub order: Order,
    /// Of keys and values between steps.
    pub cache: Cache,
    /// Of all values.
    pub noise: Noise,
    /// Largest relative error of the floats that values are kept in.
    pub unit: f64,
    /// Whether GELU is looked up in ggml's table: by the tanh formula, with half precision on both sides.
    pub gelu_table: bool,
}

impl Default for Arithmetic {
    fn default() -> Self {
        let (cache, noise) = (Cache::default(), Noise::default());
        Arithmetic { rounding: Rounding::Exact, order: Order::Lanes, cache, noise, unit: 0.0, gelu_table: false }
    }
}

/// What replay works with: a model, tokens and decoded weights.
pub struct Stage<'a> {
    /// The model's operations.
    pub graph: &'a Graph,
    /// The model's file.
    pub gguf: &'a Gguf,
    /// The tokens.
    pub tokens: &'a Tokens,
    /// Decoded weights, shared by all replays.
    pub decoded: &'a Decoded,
}

impl Stage<'_> {
    /// How many multiplications with weights it takes to compute these operations.
    pub(crate) fn work(&self, ids: &BTreeSet<NodeId>) -> usize {
        let weights = ids.iter().filter_map(|&id| self.graph.nodes[id].kind.product());
        weights.map(|weight| weight.rows * weight.cols).sum::<usize>() * self.tokens.ids.len()
    }
}

/// One replay: values so far, and the faults that it computes with.
pub struct Replay<'a> {
    stage: &'a Stage<'a>,
    arithmetic: Arithmetic,
    faults: &'a [Active],
    trace: Option<&'a Trace>,
    except: Option<NodeId>,
    values: RefCell<Vec<Option<Rc<Value>>>>,
    computed: RefCell<BTreeSet<NodeId>>,
    /// Nodes that are being computed.
    open: RefCell<BTreeSet<NodeId>>,
    applied: Cell<u64>,
}

impl<'a> Replay<'a> {
    /// A replay that takes nothing from a trace: a run of the whole model.
    pub fn whole(stage: &'a Stage<'a>, arithmetic: Arithmetic, faults: &'a [Active]) -> Replay<'a> {
        let values = RefCell::new(vec![None; stage.graph.nodes.len()]);
        let (computed, open, applied) = (RefCell::default(), RefCell::default(), Cell::new(0));
        Replay { stage, arithmetic, faults, trace: None, except: None, values, computed, open, applied }
    }

    /// A replay of the node `except` from the values of a trace.
    pub fn local(
        stage: &'a Stage<'a>,
        arithmetic: Arithmetic,
        faults: &'a [Active],
        given: &'a Trace,
        except: NodeId,
    ) -> Replay<'a> {
        Replay { trace: Some(given), except: Some(except), ..Replay::whole(stage, arithmetic, faults) }
    }

    /// A replay that takes from a trace whatever it holds completely; [`Replay::recompute`] asks it for single nodes.
    pub fn given(stage: &'a Stage<'a>, arithmetic: Arithmetic, trace: &'a Trace) -> Replay<'a> {
        Replay { trace: Some(trace), ..Replay::whole(stage, arithmetic, &[]) }
    }

    /// A node's output from its inputs, even where the trace holds it, and those inputs.
    pub fn recompute(&self, id: NodeId) -> (Value, Vec<Rc<Value>>) {
        let inputs = self.stage.graph.nodes[id].inputs.iter().map(|&input| self.value(input)).collect();
        (self.compute(id), inputs)
    }

    /// The nodes that were computed rather than given.
    pub fn computed(&self) -> BTreeSet<NodeId> {
        self.computed.borrow().clone()
    }

    /// Whether every fault had something to change.
    pub fn all_applied(&self) -> bool {
        self.applied.get() == (1u64 << self.faults.len()) - 1
    }

    /// A node's output.
    pub fn value(&self, id: NodeId) -> Rc<Value> {
        if let Some(value) = &self.values.borrow()[id] {
            return value.clone();
        }
        let value = Rc::new(self.taken(id).unwrap_or_else(|| {
            if !self.open.borrow_mut().insert(id) {
                // Faults of wirings may let values read each other: nothing can be computed so.
                return self.nothing(id);
            }
            let value = self.compute(id);
            self.open.borrow_mut().remove(&id);
            self.computed.borrow_mut().insert(id);
            value
        }));
        self.values.borrow_mut()[id] = Some(value.clone());
        value
    }

    /// A value of as many zeros.
    fn nothing(&self, id: NodeId) -> Value {
        let Stage { graph, tokens, .. } = *self.stage;
        let each = graph.nodes[id].per_token;
        Value::zeros(tokens.rows(graph.nodes[id].side) * each, graph.width(id, tokens) / each)
    }

    fn taken(&self, id: NodeId) -> Option<Value> {
        if self.except == Some(id) {
            return None;
        }
        let Stage { graph, tokens, .. } = *self.stage;
        let (rows, width) = (tokens.rows(graph.nodes[id].side), graph.width(id, tokens));
        let data = self.trace?.values.get(&graph.nodes[id].key)?.dense(rows, width)?;
        let each = graph.nodes[id].per_token;
        let mut value = Value { rows: rows * each, width: width / each, data: data.to_vec() };
        self.shake(&mut value, id);
        Some(value)
    }

    /// Changes a value a little, unless it says which experts were chosen.
    fn shake(&self, value: &mut Value, id: NodeId) {
        if !matches!(self.stage.graph.nodes[id].kind, Kind::Route { .. }) {
            self.arithmetic.noise.shake(value, id);
        }
    }

    fn mark(&self, index: usize, changed: bool) {
        if changed {
            self.applied.set(self.applied.get() | 1 << index);
        }
    }

    /// Whether an operation can read these inputs: definitions ask for the widths that they are made for, and what comes out
    /// of others is as wide as what goes in first.
    fn fits(&self, node: &Node, inputs: &[NodeId]) -> bool {
        let shape =
            |&id: &NodeId| (self.stage.graph.width(id, self.stage.tokens), self.stage.graph.nodes[id].per_token);
        let (new, old) = (inputs.iter().map(shape), node.inputs.iter().map(shape));
        match node.kind {
            Kind::Copy { .. } => new.take(node.inputs.len()).eq(old),
            Kind::Recur(_) | Kind::DotGroups | Kind::MulGroups | Kind::Stacked { .. } => new.eq(old),
            _ => new.take(1).eq(old.take(1)),
        }
    }

    fn compute(&self, id: NodeId) -> Value {
        let Stage { graph, gguf, tokens, decoded } = *self.stage;
        let node = &graph.nodes[id];
        let place = |fault: &Active| Place { graph, gguf, node, id, tokens, variant: fault.variant };
        let faults = || self.faults.iter().enumerate().filter(|(_, fault)| fault.reaches(&place(fault)));
        macro_rules! edit {
            ($kind:ident, $plan:expr) => {
                for (index, fault) in faults() {
                    for change in fault.fault.edits {
                        if let Edit::$kind(edit) = change {
                            self.mark(index, edit($plan, &place(fault)));
                        }
                    }
                }
            };
        }
        // A plan as the edits that have something to change make it; what others did to it is not kept.
        macro_rules! edited {
            ($kind:ident, $plan:expr) => {{
                let mut acting = Vec::new();
                for (index, fault) in faults() {
                    for change in fault.fault.edits {
                        if let Edit::$kind(edit) = change
                            && edit(&mut $plan, &place(fault))
                        {
                            self.mark(index, true);
                            acting.push((edit, fault));
                        }
                    }
                }
                let mut plan = $plan;
                for (edit, fault) in acting {
                    edit(&mut plan, &place(fault));
                }
                plan
            }};
        }
        let mut inputs = node.inputs.clone();
        for (index, fault) in faults() {
            for change in fault.fault.edits {
                // Edits look for inputs where the model has them: one that another fault took away is not there any more.
                if let Edit::Wiring(edit) = change
                    && inputs.len() >= node.inputs.len()
                {
                    let mut other = inputs.clone();
                    if edit(&mut other, &place(fault)) && self.fits(node, &other) {
                        self.mark(index, true);
                        inputs = other;
                    }
                }
            }
        }
        let mut inputs: Vec<Rc<Value>> = inputs.into_iter().map(|input| self.value(input)).collect();
        inputs = edited!(Inputs, inputs.clone());
        let weight = || {
            let none = || Matrix { rows: 0, cols: 0, format: Format::F32, values: Vec::new() };
            let mut matrix = node.kind.weight().map_or_else(|| Arc::new(none()), |tensor| decoded.get(tensor));
            for (index, fault) in faults() {
                for change in fault.fault.edits {
                    if let Edit::Weight(edit) = change {
                        // Weights are large: they are copied only where the fault has something to change.
                        let place = place(fault);
                        if (fault.fault.wants)(&place) {
                            self.mark(index, edit(Arc::make_mut(&mut matrix), &place));
                        }
                    }
                }
            }
            if node.kind.product().is_some() && self.arithmetic.rounding.rounds_weights() {
                let rounding = self.arithmetic.rounding;
                Arc::make_mut(&mut matrix).values.iter_mut().for_each(|x| *x = rounding.rounded(*x));
            }
            matrix
        };
        // How many rows are of a prompt; a text that is encoded is read as one.
        let read = |x: &Value| match node.side {
            Side::Text => x.rows,
            Side::Tokens => x.rows.min(tokens.prompt * (x.rows / tokens.rows(node.side).max(1)).max(1)),
        };
        let mut out = match &node.kind {
            Kind::Embed(_) => {
                let rows = tokens.ids(node.side).iter().map(|&id| i64::from(id)).collect();
                let mut plan = Embed { rows, factor: 1.0, table: Arc::unwrap_or_clone(weight()) };
                edit!(Embed, &mut plan);
                plan.run()
            }
            Kind::Positions(_) => {
                let rows = tokens.positions(node.side).iter().map(|&position| i64::from(position)).collect();
                let mut plan = Positions { rows, table: Arc::unwrap_or_clone(weight()) };
                edit!(Positions, &mut plan);
                plan.run(&inputs[0])
            }
            Kind::Norm { norm, weight: tensor, bias } => {
                // The weight is what edits of weights change; of a norm without, the bias.
                let first = Arc::unwrap_or_clone(weight()).values;
                let (first, second) = match (tensor, bias) {
                    (Some(_), Some(bias)) => (first, decoded.get(bias).values.clone()),
                    (None, Some(_)) => (Vec::new(), first),
                    _ => (first, Vec::new()),
                };
                edited!(Norm, Norm::new(norm, first.clone(), second.clone())).run(&inputs[0])
            }
            Kind::MatMul(tensor) => {
                multiplied(self.arithmetic, tensor.format, (&inputs[0], read(&inputs[0])), weight(), |x, w| {
                    weight::multiply(x, w, self.arithmetic.order)
                })
            }
            Kind::Stacked { weight: tensor, matrices, .. } => {
                let choice = inputs.get(1).map(|routes| &**routes);
                multiplied(self.arithmetic, tensor.format, (&inputs[0], read(&inputs[0])), weight(), |x, w| {
                    weight::multiply_stacked(x, w, *matrices, choice, self.arithmetic.order)
                })
            }
            Kind::Bias(_) => {
                let (mut out, bias) = ((*inputs[0]).clone(), weight());
                for row in out.data.chunks_exact_mut(out.width) {
                    row.iter_mut().zip(&bias.values).for_each(|(x, b)| *x += b);
                }
                out
            }
            Kind::Rope { rope, head_dim } => {
                edited!(Rope, Turn::new(rope, *head_dim, &tokens.positions(node.side))).run(&inputs[0])
            }
            Kind::Scores(heads) => {
                let plan = edited!(Scores, Scores::new(*heads));
                let [asked, kept] = self.arithmetic.cache.scored(&inputs[0], &inputs[1], heads.key_dim);
                plan.run(asked.as_ref().unwrap_or(&inputs[0]), kept.as_ref().unwrap_or(&inputs[1]))
            }
            Kind::SoftMax(attending) => {
                let sides = [node.side, graph.keys(id)];
                let together = if sides == [Side::Tokens; 2] { tokens.prompt } else { usize::MAX };
                let positions = || sides.map(|side| tokens.positions(side));
                edited!(SoftMax, SoftMax::new(attending, positions(), together)).run(&inputs[0])
            }
            Kind::Mix(heads) => {
                let plan = edited!(Mix, Mix::new(*heads));
                let [weights, kept] = self.arithmetic.cache.mixed(&inputs[0], &inputs[1], heads.value_dim);
                plan.run(weights.as_ref().unwrap_or(&inputs[0]), kept.as_ref().unwrap_or(&inputs[1]))
            }
            Kind::Unary(f) => {
                let f = edited!(Unary, { *f });
                let table = self.arithmetic.gelu_table && matches!(f, Unary::Gelu | Unary::GeluErf | Unary::GeluQuick);
                let at = |x: f32| if table { looked_up(f, x) } else { f.at(x.into()) as f32 };
                Value { data: inputs[0].data.iter().map(|&x| at(x)).collect(), ..*inputs[0] }
            }
            Kind::Route { router, bias, part } => {
                let plan = edited!(Route, Choice::new(*router, bias.as_ref()));
                // Logits that had to be computed may be off by their own rounding.
                let off: f32 = if self.taken(node.inputs[0]).is_some() { 2e-6 } else { 1e-4 };
                let off = off.max(2.0 * self.arithmetic.unit as f32);
                choice::part(
                    *part,
                    &plan,
                    &inputs[0],
                    self.trace.map(|trace| choice::Told::of(trace, node, off)).as_ref(),
                )
            }
            Kind::Scale(_) => simple::scale(&inputs[0], &weight()),
            Kind::Copy { columns } => {
                let columns = edited!(Copy, { *columns });
                simple::copy(&inputs, columns, node.width)
            }
            Kind::Conv(_) => {
                let mut plan = Conv::new(Arc::unwrap_or_clone(weight()), tokens.positions(node.side));
                edit!(Conv, &mut plan);
                plan.run(&inputs[0])
            }
            Kind::Recur(recurring) => {
                let plan = edited!(Recur, Recur::new(recurring, tokens.positions(node.side)));
                plan.run(&inputs.iter().map(|input| &**input).collect::<Vec<_>>())
            }
            Kind::Weighted(by) => simple::weighted(by, &inputs, &weight()),
            Kind::MulGroups => simple::mul_groups(&inputs[0], &inputs[1]),
            Kind::DotGroups => simple::dot_groups(&inputs[0], &inputs[1], node.width),
            Kind::Mul => simple::fold(&inputs, |a, b| a * b),
            Kind::Add => simple::fold(&inputs, |a, b| a + b),
        };
        for (index, fault) in faults() {
            for change in fault.fault.edits {
                if let Edit::Output(edit) = change {
                    let mut other = out.clone();
                    if edit(&mut other, &inputs, &place(fault)) {
                        self.mark(index, true);
                        out = other;
                    }
                }
            }
        }
        self.shake(&mut out, id);
        out
    }
}

/// A product of inputs, of which the first `prompt` rows are of a prompt, each rounded as the suspect rounds them.
fn multiplied(
    arithmetic: Arithmetic,
    format: Format,
    (x, prompt): (&Value, usize),
    weight: Arc<Matrix>,
    multiply: impl Fn(&Value, &Matrix) -> Value,
) -> Value {
    let rounded = arithmetic.rounding.apply(x, format, prompt);
    let mut out = multiply(&rounded, &weight);
    if let Some(rounding) = arithmetic.rounding.of_prompts_weights(format) {
        let mut weight = weight;
        Arc::make_mut(&mut weight).values.iter_mut().for_each(|w| *w = rounding.rounded(*w));
        let read = out.data.len() / x.rows.max(1) * prompt;
        out.data[..read].copy_from_slice(&multiply(&rounded, &weight).data[..read]);
    }
    out
}

/// A function as ggml looks it up: a number of half precision for one of half precision, by the tanh formula where others
/// have the error function. Of GELU, what lies beyond 10 is not in the table.
fn looked_up(f: Unary, x: f32) -> f32 {
    let half = |x: f32| Rounding::Half.rounded(x);
    let entry = |f: Unary| half(f.at(half(x).into()) as f32);
    match f {
        Unary::GeluQuick => entry(f),
        _ if x <= -10.0 => 0.0,
        _ if x >= 10.0 => x,
        _ => entry(Unary::Gelu),
    }
}
