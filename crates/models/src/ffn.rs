//! The feed-forward of a layer: dense, or a mixture of experts with or without one that all tokens share (Shazeer 2020;
//! Jiang et al. 2024; Dai et al. 2024).

use candor_ops::{Gate, LayerCache, Ops, Router, Tap, Unary};

use crate::{
    Architecture, Error, channel_mix,
    config::Config,
    keys::Keys,
    linear::{Linear, Out, To},
    mixer::At,
    registry::Activation,
    weights::Weights,
};

/// The dimensions of a feed-forward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Dims {
    Dense(Dense),
    Experts(Experts),
    Channels(channel_mix::Dims),
}

/// Of a dense one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dense {
    /// Width `F` of the middle.
    ffn: usize,
    gated: Gated,
}

/// Where the gate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gated {
    /// Nowhere.
    No,
    /// A matrix of its own.
    Own,
    /// The first half of the other's outputs.
    Fused,
}

/// Of a mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Experts {
    /// Width of an expert's middle.
    ffn: usize,
    router: Router,
    shared: Option<Dense>,
}

/// The weights of a feed-forward.
pub(crate) enum Ffn<B: Ops> {
    Dense(DenseLayer<B>),
    Experts(Box<ExpertsLayer<B>>),
    Channels(channel_mix::Layer<B>),
}

pub(crate) struct DenseLayer<B: Ops> {
    gate: Option<Linear<B>>, // [F, D]
    up: Linear<B>,           // [F, D]
    down: Linear<B>,         // [D, F]
    activation: Unary,
    clamped: bool,
}

pub(crate) struct ExpertsLayer<B: Ops> {
    router: Router,
    inp: Linear<B>,                                     // [experts, D]
    choice_bias: Option<B::Weight>,                     // [experts]
    gate: Matrices<B>,                                  // [experts][F, D]
    up: Matrices<B>,                                    // [experts][F, D]
    down: Matrices<B>,                                  // [experts][D, F]
    shared: Option<(DenseLayer<B>, Option<B::Weight>)>, // and its gate, [1, D]
    activation: Unary,
    clamped: bool,
}

/// A matrix per expert, and a vector where the file has them.
struct Matrices<B: Ops> {
    weight: B::Weight,
    bias: Option<B::Weight>, // [experts, outputs]
}

/// The values in flight.
pub(crate) enum Scratch<B: Ops> {
    Dense(DenseScratch<B>),
    Experts(Box<ExpertsScratch<B>>),
    Channels(channel_mix::Scratch<B>),
}

pub(crate) struct DenseScratch<B: Ops> {
    gate: B::Buf, // [T, F]
    up: B::Buf,   // [T, F]
}

pub(crate) struct ExpertsScratch<B: Ops> {
    logits: B::Buf, // [T, experts]
    routes: B::Routes,
    gate: B::Buf,                              // [T*used, F]
    up: B::Buf,                                // [T*used, F]
    down: B::Buf,                              // [T*used, D]
    sum: B::Buf,                               // [T, D]
    shared: Option<(DenseScratch<B>, B::Buf)>, // and its gate, [T, 1]
}

impl Dims {
    pub(crate) fn of(keys: &Keys<'_>, arch: &Architecture, config: &Config, i: usize) -> Result<Option<Dims>, Error> {
        let name = |rest: &str| config.name(i, &format!("{rest}.weight"));
        let shape = |rest: &str| keys.gguf.tensor(&name(rest)).map(|info| &info.shape);
        let outputs = |shape: &Vec<u64>| shape.get(1).copied().unwrap_or(1) as usize;
        let dense = |up: &str, gate: &str, down: &str, width: Option<usize>| -> Result<Option<Dense>, Error> {
            if [up, gate, down].iter().all(|part| shape(part).is_none()) {
                return Ok(None);
            }
            let there = |part: &str| shape(part).ok_or_else(|| Error::MissingTensor(name(part)));
            let (rows, cols) = (outputs(there(up)?), there(down)?.first().copied().unwrap_or(0) as usize);
            // Qwen 1 counts both halves.
            let ffn = width.filter(|&width| width != 0 && width != 2 * cols).unwrap_or(cols);
            let gated = match shape(gate).is_some() {
                true => Gated::Own,
                false if rows == 2 * ffn => Gated::Fused,
                false => Gated::No,
            };
            Ok(Some(Dense { ffn, gated }))
        };
        if let Some(dims) = channel_mix::Dims::of(keys, config, i) {
            return Ok(Some(Dims::Channels(dims)));
        }
        if shape("ffn_gate_inp").is_none() {
            let width = keys.per_layer("feed_forward_length", config.layers)?.map(|widths| widths[i]);
            return Ok(dense("ffn_up", "ffn_gate", "ffn_down", width)?.map(Dims::Dense));
        }
        let experts = keys.positive("expert_count")?;
        let used = keys.positive("expert_used_count")?;
        if used > experts {
            return Err(keys.bad("expert_used_count", &format!("at most {experts}"), used));
        }
        let gate = match keys.number("expert_gating_func")?.unwrap_or(0) {
            0 => match (arch.router.0, keys.float("router_jitter_noise")?) {
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
        let normalized = keys.flag("expert_weights_norm")?.unwrap_or(arch.router.1);
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
        let down = shape("ffn_down_exps").ok_or_else(|| Error::MissingTensor(name("ffn_down_exps")))?;
        let ffn = down.first().copied().unwrap_or(0) as usize;
        let shared = dense("ffn_up_shexp", "ffn_gate_shexp", "ffn_down_shexp", None)?;
        let router = Router { experts, used, gate, groups, normalized, scale };
        Ok(Some(Dims::Experts(Experts { ffn, router, shared })))
    }

    /// Adds what it keeps of a sequence to a layer's cache.
    pub(crate) fn keep(&self, cache: &mut LayerCache) {
        if let Dims::Channels(dims) = self {
            dims.keep(cache);
        }
    }

    /// Width of the middle.
    pub(crate) fn width(&self) -> usize {
        match self {
            Dims::Dense(dense) => dense.ffn,
            Dims::Experts(experts) => experts.ffn,
            Dims::Channels(dims) => dims.ffn,
        }
    }

    /// Elements of a row of each of its buffers.
    pub(crate) fn widths(&self, dim: usize) -> Vec<usize> {
        match self {
            Dims::Dense(Dense { ffn, .. }) => vec![*ffn, *ffn],
            Dims::Experts(Experts { ffn, router, shared }) => {
                let shared = shared.map_or(0, |shared| shared.ffn);
                vec![router.experts, router.used * (2 * ffn + dim), dim, 2 * shared, 1]
            }
            Dims::Channels(dims) => dims.widths().to_vec(),
        }
    }

    pub(crate) fn scratch<B: Ops>(&self, ops: &mut B, dim: usize, rows: usize) -> Scratch<B> {
        let dense = |ops: &mut B, ffn| DenseScratch { gate: ops.buffer(rows, ffn), up: ops.buffer(rows, ffn) };
        match *self {
            Dims::Channels(dims) => Scratch::Channels(dims.scratch(ops, rows)),
            Dims::Dense(Dense { ffn, .. }) => Scratch::Dense(dense(ops, ffn)),
            Dims::Experts(Experts { ffn, router, shared }) => {
                let choices = rows * router.used;
                Scratch::Experts(Box::new(ExpertsScratch {
                    logits: ops.buffer(rows, router.experts),
                    routes: ops.routes(rows, router.used),
                    gate: ops.buffer(choices, ffn),
                    up: ops.buffer(choices, ffn),
                    down: ops.buffer(choices, dim),
                    sum: ops.buffer(rows, dim),
                    shared: shared.map(|shared| (dense(ops, shared.ffn), ops.buffer(rows, 1))),
                }))
            }
        }
    }

    pub(crate) fn load<B: Ops>(
        &self,
        w: &mut Weights<'_, B>,
        arch: &Architecture,
        config: &Config,
        i: usize,
    ) -> Result<Ffn<B>, Error> {
        let name = |rest: &str| config.name(i, rest);
        let activation = activation(w, arch, (i, w.has(&name("ffn_gate.weight"))))?;
        match *self {
            Dims::Dense(dims) => {
                let names = ["ffn_gate", "ffn_up", "ffn_down"].map(name);
                Ok(Ffn::Dense(DenseLayer::load(w, &names, dims, config.dim, activation)?))
            }
            Dims::Channels(dims) => Ok(Ffn::Channels(dims.load(w, i)?)),
            Dims::Experts(dims) => Ok(Ffn::Experts(Box::new(ExpertsLayer::load(w, name, dims, config, activation)?))),
        }
    }
}

/// The function of a layer, which may have a gate, and whether it is the clamped one.
fn activation<B: Ops>(
    w: &Weights<'_, B>,
    arch: &Architecture,
    (i, gated): (usize, bool),
) -> Result<(Unary, bool), Error> {
    match arch.activation {
        Activation::Plain(function) => Ok((function, false)),
        Activation::GeluOrRelu => Ok((if gated { Unary::Gelu } else { Unary::Relu }, false)),
        Activation::ClampedGlu => Ok((Unary::GeluQuick, true)),
        Activation::Xielu => {
            let number = |key: &str| {
                let name = format!("xielu.{key}");
                let values = w.metadata().f32s(&name)?.ok_or_else(|| Error::MissingKey(name.clone()))?;
                values.get(i).copied().ok_or_else(|| Error::BadValue {
                    key: name.clone(),
                    expected: "a number for each layer".into(),
                    got: values.len().to_string(),
                })
            };
            let (negative, positive) = (number("alpha_n")?, number("alpha_p")?);
            let (beta, eps) = (number("beta")?, number("eps")?);
            // The file has the numbers before they are made positive.
            let softplus = |x: f32| Unary::Softplus.at(x.into()) as f32;
            let (negative, positive) = (beta + softplus(negative), softplus(positive));
            Ok((Unary::Xielu { negative, positive, beta, eps }, false))
        }
    }
}

impl<B: Ops> DenseLayer<B> {
    fn load(
        w: &mut Weights<'_, B>,
        [gate, up, down]: &[String; 3],
        Dense { ffn, gated }: Dense,
        dim: usize,
        (activation, clamped): (Unary, bool),
    ) -> Result<DenseLayer<B>, Error> {
        let (gate, up) = match gated {
            Gated::No => (None, Linear::load(w, up, dim, ffn)?),
            Gated::Own => (Some(Linear::load(w, gate, dim, ffn)?), Linear::load(w, up, dim, ffn)?),
            Gated::Fused => {
                let part = |w: &mut _, range| Linear::part(w, up, (dim, 2 * ffn), range);
                (Some(part(w, 0..ffn)?), part(w, ffn..2 * ffn)?)
            }
        };
        Ok(DenseLayer { gate, up, down: Linear::load(w, down, ffn, dim)?, activation, clamped })
    }

    /// `f(h @ gate) * (h @ up)`, or `f(h @ up)`, in the first buffer given.
    fn middle<'s, P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &'s mut DenseScratch<B>, h: &B::Buf) -> &'s B::Buf {
        let Some(gate) = &self.gate else {
            self.up.apply(at.ops, &mut s.up, h);
            at.tap("ffn_up", &s.up);
            at.ops.unary(&mut s.up, self.activation);
            at.tap("ffn_act", &s.up);
            return &s.up;
        };
        at.ops.matmul2((&mut s.gate, &gate.weight), (&mut s.up, &self.up.weight), h);
        gate.add_bias(at.ops, &mut s.gate);
        self.up.add_bias(at.ops, &mut s.up);
        at.tap("ffn_gate", &s.gate);
        at.tap("ffn_up", &s.up);
        activate(at.ops, &mut s.gate, &mut s.up, (self.activation, self.clamped));
        let name = if self.activation == Unary::Silu { "ffn_swiglu" } else { "ffn_gate_par" };
        at.tap(name, &s.gate);
        &s.gate
    }
}

/// `gate = f(gate) * up`.
fn activate<B: Ops>(ops: &mut B, gate: &mut B::Buf, up: &mut B::Buf, (activation, clamped): (Unary, bool)) {
    if activation == Unary::Silu {
        return ops.swiglu(gate, up);
    }
    if clamped {
        ops.unary(gate, Unary::Clamp { low: f32::NEG_INFINITY, high: 7.0 });
        ops.unary(up, Unary::Clamp { low: -7.0, high: 7.0 });
        ops.unary(up, Unary::Affine { scale: 1.0, offset: 1.0 });
    }
    ops.unary(gate, activation);
    ops.mul(gate, up);
}

impl<B: Ops> ExpertsLayer<B> {
    fn load(
        w: &mut Weights<'_, B>,
        name: impl Fn(&str) -> String,
        Experts { ffn, router, shared }: Experts,
        config: &Config,
        activation: (Unary, bool),
    ) -> Result<ExpertsLayer<B>, Error> {
        let (dim, experts) = (config.dim, router.experts);
        let matrices = |w: &mut Weights<'_, B>, part: &str, cols: usize, rows: usize| {
            let name = name(part);
            let weight = w.stacked(&format!("{name}.weight"), cols, rows * experts)?;
            let bias = format!("{name}.bias");
            let bias = if w.has(&bias) { Some(w.matrix(&bias, rows, experts)?) } else { None };
            Ok::<_, Error>(Matrices { weight, bias })
        };
        let (gate, up) = (matrices(w, "ffn_gate_exps", dim, ffn)?, matrices(w, "ffn_up_exps", dim, ffn)?);
        let down = matrices(w, "ffn_down_exps", ffn, dim)?;
        let choice_bias = name("exp_probs_b.bias");
        let choice_bias = if w.has(&choice_bias) { Some(w.spread(&choice_bias, experts)?) } else { None };
        let shared = match shared {
            Some(dims) => {
                let names = ["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"].map(&name);
                let gate = name("ffn_gate_inp_shexp.weight");
                let gate = if w.has(&gate) { Some(w.spread(&gate, dim)?) } else { None };
                Some((DenseLayer::load(w, &names, dims, dim, activation)?, gate))
            }
            None => None,
        };
        let inp = Linear::load(w, &name("ffn_gate_inp"), dim, experts)?;
        let (activation, clamped) = activation;
        Ok(ExpertsLayer { router, inp, choice_bias, gate, up, down, shared, activation, clamped })
    }

    fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut ExpertsScratch<B>, h: &B::Buf, out: Out<'_, B>) {
        let ExpertsScratch { logits, routes, gate, up, down, sum, shared } = s;
        self.inp.apply(at.ops, logits, h);
        at.tap("ffn_moe_logits", logits);
        at.ops.route(routes, logits, self.choice_bias.as_ref(), self.router);
        for (x, w) in [(&mut *gate, &self.gate), (&mut *up, &self.up)] {
            w.apply(at.ops, x, h, routes);
            // A product is linear: to weigh its result is to weigh what goes in.
            if at.config.weigh_before {
                at.ops.scale_experts(x, routes);
            }
        }
        activate(at.ops, gate, up, (self.activation, self.clamped));
        self.down.apply(at.ops, down, gate, routes);
        if !at.config.weigh_before {
            at.ops.scale_experts(down, routes);
        }
        at.ops.sum_experts(sum, down, routes);
        at.tap("ffn_moe_out", sum);
        match (&self.shared, shared) {
            (Some((layer, gate)), Some((s, weight))) => {
                let middle = layer.middle(at, s, h);
                layer.down.apply(at.ops, out.y, middle);
                if let Some(gate) = gate {
                    at.ops.matmul(weight, h, gate);
                    at.ops.unary(weight, Unary::Sigmoid);
                    at.ops.mul_groups(out.y, weight);
                }
                at.ops.add(out.y, sum);
                if out.to == To::Stream {
                    at.ops.add(out.x, out.y);
                }
            }
            _ if out.to == To::Stream => at.ops.add(out.x, sum),
            _ => at.ops.copy(out.y, sum, candor_ops::Columns::run(at.config.dim, 0, 0)),
        }
    }
}

impl<B: Ops> Matrices<B> {
    fn apply(&self, ops: &mut B, out: &mut B::Buf, x: &B::Buf, routes: &B::Routes) {
        ops.matmul_experts(out, x, &self.weight, routes);
        if let Some(bias) = &self.bias {
            ops.add_bias_experts(out, bias, routes);
        }
    }
}

impl<B: Ops> Ffn<B> {
    /// Runs on `h`, the normed stream, and leaves the result in `out`.
    pub(crate) fn run<P: Tap<B>>(&self, at: &mut At<'_, '_, B, P>, s: &mut Scratch<B>, h: &B::Buf, out: Out<'_, B>) {
        match (self, s) {
            (Ffn::Dense(layer), Scratch::Dense(s)) => {
                let middle = layer.middle(at, s, h);
                layer.down.leave(at.ops, middle, out);
            }
            (Ffn::Experts(layer), Scratch::Experts(s)) => layer.run(at, s, h, out),
            (Ffn::Channels(layer), Scratch::Channels(s)) => layer.run(at, s, h, out),
            _ => unreachable!("scratch was made for the layer's own dimensions"),
        }
    }
}
