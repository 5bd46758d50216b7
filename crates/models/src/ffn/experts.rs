//! A mixture of experts, with or without a feed-forward that all tokens share (Shazeer et al. 2017; Jiang et al. 2024; Dai et al.
//! 2024).

use candor_ops::{Columns, Gate, Ops, Router, Tap, Unary};

use super::dense;
use crate::{
    Error,
    at::At,
    common::Common,
    keys::Keys,
    linear::{Linear, Out, To},
    weights::Weights,
};

/// The dimensions of a mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dims {
    /// Width `F` of an expert's middle.
    pub(crate) ffn: usize,
    router: Router,
    shared: Option<dense::Dims>,
    opens: Opens,
    /// Whether each expert's result has a factor of its own.
    scaled: bool,
}

/// How an expert's middle is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opens {
    /// By a gate and what it opens, two matrices.
    Gated,
    /// By both in one matrix.
    Fused,
    /// By one matrix, without a gate.
    Ungated,
}

/// The weights of a mixture of experts.
pub(crate) struct Layer<B: Ops> {
    ffn: usize,
    router: Router,
    inp: Linear<B>,                 // [experts, D]
    choice_bias: Option<B::Weight>, // [experts]
    opening: Opening<B>,
    down: Matrices<B>,                                    // [experts][D, F]
    shared: Option<(dense::Layer<B>, Option<B::Weight>)>, // and its gate, [1, D]
    activation: Unary,
    clamped: bool,
}

/// The first matrices of all experts.
enum Opening<B: Ops> {
    /// Gate and up apart.
    Two([Matrices<B>; 2]), // [experts][F, D]
    /// The gate's rows before the other's.
    One(Matrices<B>), // [experts][2F, D]
    /// Up alone.
    Up(Matrices<B>), // [experts][F, D]
}

/// A matrix per expert, with a number to multiply its product with and a vector to add where the file has them.
struct Matrices<B: Ops> {
    weight: B::Weight,
    scale: Option<B::Weight>, // [experts, 1]
    bias: Option<B::Weight>,  // [experts, outputs]
}

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    logits: B::Buf, // [T, experts]
    routes: B::Routes,
    gate: B::Buf,   // [T*used, F]
    up: B::Buf,     // [T*used, F]
    both: B::Buf,   // [T*used, 2F]; no width where they are two
    down: B::Buf,   // [T*used, D]
    factor: B::Buf, // [T*used, 1]; no width where experts have none
    /// What the chosen experts give together, `[T, D]`.
    pub(crate) sum: B::Buf,
    shared: Option<(dense::Scratch<B>, B::Buf)>, // and its gate, [T, 1]
}

impl Dims {
    /// Those of a layer that has a router.
    pub(crate) fn of(keys: &Keys<'_>, common: &Common, i: usize, shared: Option<dense::Dims>) -> Result<Dims, Error> {
        let tensor = |rest: &str| keys.gguf.tensor(&common.name(i, rest));
        let experts = keys.positive("expert_count")?;
        let used = keys.positive("expert_used_count")?;
        if used > experts {
            return Err(keys.bad("expert_used_count", &format!("at most {experts}"), used));
        }
        let gate = match keys.number("expert_gating_func")?.unwrap_or(0) {
            0 => match (keys.arch.router.0, keys.float("router_jitter_noise")?) {
                // Scores that training would have taken for each other are within twice the noise.
                (Gate::SparseMixer(_), Some(noise)) => Gate::SparseMixer(2.0 * noise),
                (gate, _) => gate,
            },
            1 => Gate::Softmax,
            2 => Gate::Sigmoid,
            3 => Gate::SoftmaxOfChosen,
            other => {
                return Err(keys.bad(
                    "expert_gating_func",
                    "1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen)",
                    other,
                ));
            }
        };
        let normalized = keys.flag("expert_weights_norm")?.unwrap_or(keys.arch.router.1);
        let scale = keys.float("expert_weights_scale")?.filter(|&scale| scale != 0.0).unwrap_or(1.0);
        let number = |key: &str| Ok::<_, Error>(keys.number(key)?.filter(|&number| number != 0).unwrap_or(1));
        let groups = (number("expert_group_count")?, number("expert_group_used_count")?);
        if !experts.is_multiple_of(groups.0) || groups.1 > groups.0 || experts / groups.0 * groups.1 < used {
            return Err(keys.bad(
                "expert_group_count",
                &format!("groups of {experts} experts with room for {used}"),
                groups.0,
            ));
        }
        const DOWN: &str = "ffn_down_exps.weight";
        let down = tensor(DOWN).ok_or_else(|| Error::MissingTensor(common.name(i, DOWN)))?;
        let ffn = down.shape.first().copied().unwrap_or(0) as usize;
        let router = Router { experts, used, gate, groups, normalized, scale };
        let has = |rest: &str| tensor(rest).is_some();
        let opens = match has("ffn_gate_up_exps.weight") {
            true => Opens::Fused,
            false if keys.arch.activation.gates() || has("ffn_gate_exps.weight") => Opens::Gated,
            false => Opens::Ungated,
        };
        let scales = ["gate", "up", "gate_up", "down"].map(|part| format!("ffn_{part}_exps.scale"));
        Ok(Dims { ffn, router, shared, opens, scaled: scales.iter().any(|name| has(name)) })
    }

    /// Width of gate and up together, where one matrix gives both.
    fn both(&self) -> usize {
        if self.opens == Opens::Fused { 2 * self.ffn } else { 0 }
    }

    pub(crate) fn scratch<B: Ops>(&self, ops: &mut B, dim: usize, rows: usize) -> Scratch<B> {
        let Dims { ffn, router, shared, scaled, .. } = *self;
        let choices = rows * router.used;
        Scratch {
            logits: ops.buffer(rows, router.experts),
            routes: ops.routes(rows, router.used),
            gate: ops.buffer(choices, ffn),
            up: ops.buffer(choices, ffn),
            both: ops.buffer(choices, self.both()),
            down: ops.buffer(choices, dim),
            factor: ops.buffer(choices, usize::from(scaled)),
            sum: ops.buffer(rows, dim),
            shared: shared.map(|shared| (shared.scratch(ops, rows), ops.buffer(rows, 1))),
        }
    }
}

impl<B: Ops> Layer<B> {
    pub(crate) fn load(
        w: &mut Weights<'_, B>,
        name: impl Fn(&str) -> String,
        Dims { ffn, router, shared, opens, .. }: Dims,
        common: &Common,
        activation: (Unary, bool),
    ) -> Result<Layer<B>, Error> {
        let (dim, experts) = (common.dim, router.experts);
        let matrices = |w: &mut Weights<'_, B>, part: &str, cols: usize, rows: usize| {
            let name = name(part);
            let weight = w.stacked(&format!("{name}.weight"), cols, rows * experts)?;
            let bias = format!("{name}.bias");
            let bias = if w.has(&bias) { Some(w.matrix(&bias, rows, experts)?) } else { None };
            let scale = format!("{name}.scale");
            let scale = if w.has(&scale) { Some(w.column(&scale, experts)?) } else { None };
            // For those who round inputs to four bits.
            w.leave(&format!("{name}.input_scale"));
            Ok::<_, Error>(Matrices { weight, scale, bias })
        };
        let opening = match opens {
            Opens::Fused => Opening::One(matrices(w, "ffn_gate_up_exps", dim, 2 * ffn)?),
            Opens::Gated => {
                Opening::Two([matrices(w, "ffn_gate_exps", dim, ffn)?, matrices(w, "ffn_up_exps", dim, ffn)?])
            }
            Opens::Ungated => Opening::Up(matrices(w, "ffn_up_exps", dim, ffn)?),
        };
        let down = matrices(w, "ffn_down_exps", ffn, dim)?;
        let choice_bias = name("exp_probs_b.bias");
        let choice_bias = if w.has(&choice_bias) { Some(w.spread(&choice_bias, experts)?) } else { None };
        let shared = match shared {
            Some(dims) => {
                let names = ["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"].map(&name);
                let gate = name("ffn_gate_inp_shexp.weight");
                let gate = if w.has(&gate) { Some(w.spread(&gate, dim)?) } else { None };
                Some((dense::Layer::load(w, &names, dims, dim, activation)?, gate))
            }
            None => None,
        };
        let inp = Linear::load(w, &name("ffn_gate_inp"), dim, experts)?;
        let (activation, clamped) = activation;
        Ok(Layer { ffn, router, inp, choice_bias, opening, down, shared, activation, clamped })
    }

    /// Runs on `h`, the normed stream, and leaves the result in `out`.
    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        self.choose(at, s, h);
        self.answer(at, s, h);
        match (&self.shared, &mut s.shared) {
            (Some((layer, gate)), Some((dense, weight))) => {
                layer.to(at, dense, h, out.y);
                if let Some(gate) = gate {
                    at.ops.matmul(weight, h, gate);
                    at.ops.unary(weight, Unary::Sigmoid);
                    at.ops.mul_groups(out.y, weight);
                }
                at.ops.add(out.y, &s.sum);
                out.add(at.ops);
            }
            _ if out.to == To::Stream => at.ops.add(out.x, &s.sum),
            _ => at.ops.copy(out.y, &s.sum, Columns::run(at.common.dim, 0, 0)),
        }
    }

    /// Chooses experts by `h`.
    pub(crate) fn choose<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf) {
        self.inp.apply(at.ops, &mut s.logits, h);
        at.tap("ffn_moe_logits", &s.logits);
        at.ops.route(&mut s.routes, &s.logits, self.choice_bias.as_ref(), self.router);
        at.chosen(&s.routes);
    }

    /// Leaves what the chosen experts make of `h` in the scratch's `sum`.
    pub(crate) fn answer<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf) {
        let Scratch { routes, gate, up, both, down, factor, sum, .. } = s;
        match &self.opening {
            Opening::Two([first, second]) => {
                at.ops.matmul2_experts((gate, &first.weight), (up, &second.weight), h, routes);
                first.finish(at.ops, gate, factor, routes);
                second.finish(at.ops, up, factor, routes);
            }
            Opening::One(opening) => {
                opening.apply(at.ops, both, h, factor, routes);
                at.ops.copy(gate, both, Columns::run(self.ffn, 0, 0));
                at.ops.copy(up, both, Columns::run(self.ffn, self.ffn, 0));
            }
            Opening::Up(opening) => opening.apply(at.ops, gate, h, factor, routes),
        }
        // A product is linear: to weigh its result is to weigh what goes in.
        if at.common.weigh_before {
            at.ops.scale_experts(gate, routes);
            at.ops.scale_experts(up, routes);
        }
        match self.opening {
            Opening::Up(_) => {
                at.tap("ffn_moe_up", gate);
                at.ops.unary(gate, self.activation);
            }
            Opening::One(_) | Opening::Two(_) => {
                at.tap("ffn_moe_gate", gate);
                at.tap("ffn_moe_up", up);
                dense::activate(at.ops, gate, up, (self.activation, self.clamped));
            }
        }
        let swiglu = self.activation == Unary::Silu && !matches!(self.opening, Opening::Up(_));
        at.tap(if swiglu { "ffn_moe_swiglu" } else { "ffn_moe_act" }, gate);
        self.down.apply(at.ops, down, gate, factor, routes);
        at.tap("ffn_moe_down", down);
        if !at.common.weigh_before {
            at.ops.scale_experts(down, routes);
            at.tap("ffn_moe_weighted", down);
        }
        at.ops.sum_experts(sum, down, routes);
        at.tap("ffn_moe_out", sum);
    }
}

impl<B: Ops> Matrices<B> {
    fn apply(&self, ops: &mut B, out: &mut B::Buf, x: &B::Buf, factor: &mut B::Buf, routes: &B::Routes) {
        ops.matmul_experts(out, x, &self.weight, routes);
        self.finish(ops, out, factor, routes);
    }

    /// Makes the result of a product that was made elsewhere, with room for a number per row.
    fn finish(&self, ops: &mut B, out: &mut B::Buf, factor: &mut B::Buf, routes: &B::Routes) {
        if let Some(scale) = &self.scale {
            // No operation multiplies by expert; one adds, and to nothing.
            ops.copy(factor, out, Columns::run(1, 0, 0));
            ops.unary(factor, Unary::scale(0.0));
            ops.add_bias_experts(factor, scale, routes);
            ops.mul_groups(out, factor);
        }
        if let Some(bias) = &self.bias {
            ops.add_bias_experts(out, bias, routes);
        }
    }
}
