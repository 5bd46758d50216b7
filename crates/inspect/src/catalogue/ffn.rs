//! Faults of the feed-forward: activations, gates and their limits (section A6 of the catalogue).

use std::rc::Rc;

use candor_ops::Unary;

use super::{
    row::{FACTORS, ROW},
    values::near,
};
use crate::fault::{Edit, Fault};
use crate::{Kind, NodeId, Value, replay::Place};

/// Whether the operation is the activation of a feed-forward, and which.
fn activation(place: &Place<'_>) -> Option<Unary> {
    let Kind::Unary(f) = place.node.kind else { return None };
    let bends = matches!(
        f,
        Unary::Silu
            | Unary::Gelu
            | Unary::GeluErf
            | Unary::GeluQuick
            | Unary::Relu
            | Unary::ReluSquared
            | Unary::Xielu { .. }
    );
    let own = |name: &str| name.starts_with("ffn_") && !name.starts_with("ffn_silu");
    let read = || place.readers().any(|(_, reader)| matches!(reader.kind, Kind::Mul) && own(&reader.key.name));
    (bends && (own(&place.node.key.name) || read())).then_some(f)
}

/// Puts a function in the place of the feed-forward's, unless it is that one or one of `but`.
fn replace(f: &mut Unary, place: &Place<'_>, other: Unary, but: &[Unary]) -> bool {
    let hit = activation(place).is_some_and(|own| own != other && !but.contains(&own));
    if hit {
        *f = other;
    }
    hit
}

/// How a feed-forward multiplies its activated gate with up.
struct Gating {
    /// Before limits and activation.
    gate: NodeId,
    /// Before limits and shift.
    up: NodeId,
    f: Unary,
    /// What the gate is cut off at.
    limit: Option<f64>,
    /// Added to up.
    shift: f64,
}

impl Gating {
    fn of(place: &Place<'_>) -> Option<Gating> {
        let (Kind::Mul, &[gate, up]) = (&place.node.kind, place.node.inputs.as_slice()) else { return None };
        if !place.node.key.name.starts_with("ffn_") {
            return None;
        }
        let Kind::Unary(f) = place.graph.nodes[gate].kind else { return None };
        let (gate, limit, _) = before(place, place.graph.nodes[gate].inputs[0]);
        let (up, _, shift) = before(place, up);
        let gated = matches!(f, Unary::Silu | Unary::Gelu | Unary::GeluErf | Unary::GeluQuick | Unary::Relu);
        gated.then_some(Gating { gate, up, f, limit, shift })
    }

    fn act(&self, x: f64) -> f64 {
        self.f.at(x)
    }

    fn cut(&self, gate: f64) -> f64 {
        self.limit.map_or(gate, |limit| gate.min(limit))
    }

    /// Up within its limits and shifted.
    fn moved(&self, up: f64) -> f64 {
        self.limit.map_or(up, |limit| up.clamp(-limit, limit)) + self.shift
    }
}

/// What a value was before limits and shifts, the upper limit and the shift.
fn before(place: &Place<'_>, mut id: NodeId) -> (NodeId, Option<f64>, f64) {
    let (mut limit, mut shift) = (None, 0.0);
    while let Kind::Unary(Unary::Clamp { .. } | Unary::Affine { scale: 1.0, .. }) = place.graph.nodes[id].kind {
        match place.graph.nodes[id].kind {
            Kind::Unary(Unary::Clamp { high, .. }) => limit = Some(f64::from(high)),
            Kind::Unary(Unary::Affine { offset, .. }) => shift = f64::from(offset),
            _ => {}
        }
        id = place.graph.nodes[id].inputs[0];
    }
    (id, limit, shift)
}

/// Lets the product read gate and up as they are, before activation, limits and shift.
fn rewire(inputs: &mut Vec<NodeId>, place: &Place<'_>, wants: fn(&Gating, &Place<'_>) -> bool) -> bool {
    let gating = Gating::of(place).filter(|gating| wants(gating, place));
    if let Some(Gating { gate, up, .. }) = gating {
        *inputs = vec![gate, up];
    }
    gating.is_some()
}

/// Puts another formula of gate and up in the product's place.
fn gate(
    inputs: &mut Vec<Rc<Value>>,
    place: &Place<'_>,
    wants: fn(&Gating, &Place<'_>) -> bool,
    formula: impl Fn(&Gating, f64, f64) -> f64,
) -> bool {
    let Some(gating) = Gating::of(place).filter(|gating| wants(gating, place)) else { return false };
    // Of two faults the other may have left one input.
    let [gates, ups] = inputs.as_slice() else { return false };
    let (gates, ups) = (gates.clone(), ups.clone());
    let pairs = || gates.data.iter().zip(&ups.data).map(|(&gate, &up)| (f64::from(gate), f64::from(up)));
    let data: Vec<f32> = pairs().map(|(gate, up)| formula(&gating, gate, up) as f32).collect();
    let right = pairs().map(|(gate, up)| (gating.act(gating.cut(gate)) * gating.moved(up)) as f32);
    let changed = right.ne(data.iter().copied());
    *inputs = vec![Rc::new(Value { data, ..*gates })];
    changed
}

fn always(_: &Gating, _: &Place<'_>) -> bool {
    true
}

/// Whether gate and up are halves of one product.
fn of_one_product(gating: &Gating, place: &Place<'_>) -> bool {
    let part = |id: NodeId| place.graph.nodes[id].kind.weight().is_some_and(|weight| weight.whole().1.is_some());
    part(gating.gate) && part(gating.up)
}

/// Whether gate and up have limits, and up is shifted (gpt-oss).
fn limited(gating: &Gating, _: &Place<'_>) -> bool {
    gating.limit.is_some()
}

/// Whether the fault's number is another limit than the model's.
fn other_limit(gating: &Gating, place: &Place<'_>) -> bool {
    !gating.limit.is_some_and(|limit| near(place.variant, limit))
}

/// Whether the fault's number is another factor than that of a named function.
fn other_factor(gating: &Gating, place: &Place<'_>) -> bool {
    let known = [1.0, 1.702].into_iter().any(|factor| near(place.variant, factor));
    matches!(gating.f, Unary::Silu | Unary::GeluQuick) && !known
}

/// A row for another formula of gate and up.
macro_rules! gated {
    ($wants:expr, |$gating:pat_param, $gate:ident, $up:ident, $place:pat_param| $formula:expr) => {
        &[
            Edit::Wiring(|inputs, place| rewire(inputs, place, $wants)),
            Edit::Inputs(|inputs, place| {
                let $place = place;
                gate(inputs, place, $wants, |$gating, $gate, $up| $formula)
            }),
        ]
    };
}

/// x * sigmoid(x).
fn silu(x: f64) -> f64 {
    Unary::Silu.at(x)
}

/// Whether the operation squares what a ReLU lets through.
fn squares(place: &Place<'_>) -> bool {
    matches!(place.node.kind, Kind::Unary(Unary::ReluSquared))
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "gelu-for-silu",
        entry: "65",
        edits: &[Edit::Unary(|f, place| replace(f, place, Unary::Gelu, &[]))],
        cause: "the feed-forward's activation is GELU by the tanh formula",
        remedy: "use the architecture's function; the text stays readable for a while, so nobody notices",
        source: "huggingface/transformers#29402, huggingface/candle#900",
        ..ROW
    },
    Fault {
        name: "gelu-by-erf",
        entry: "65",
        edits: &[Edit::Unary(|f, place| replace(f, place, Unary::GeluErf, &[]))],
        cause: "the feed-forward's activation is GELU by the error function",
        remedy: "use the architecture's function: gelu_pytorch_tanh and gelu_new are the tanh formula, SiLU is x * sigmoid(x)",
        source: "huggingface/transformers#29402, huggingface/candle#900",
        ..ROW
    },
    Fault {
        name: "quick-gelu",
        entry: "65",
        edits: &[Edit::Unary(|f, place| replace(f, place, Unary::GeluQuick, &[]))],
        cause: "the feed-forward's activation is quick-GELU, x * sigmoid(1.702 x)",
        remedy: "use the architecture's function",
        source: "THUDM/slime#1825",
        ..ROW
    },
    Fault {
        name: "silu-for-gelu",
        entry: "65",
        edits: &[Edit::Unary(|f, place| replace(f, place, Unary::Silu, &[]))],
        cause: "the feed-forward's activation is SiLU, x * sigmoid(x), without a factor inside",
        remedy: "use the architecture's function: GELU for Gemma and GPT-2, x * sigmoid(1.702 x) for gpt-oss, ReLU squared \
                 for Nemotron",
        source: "sgl-project/sglang#39939, vllm-project/vllm#6611",
        ..ROW
    },
    Fault {
        name: "relu-for-silu",
        entry: "65",
        edits: &[Edit::Unary(|f, place| replace(f, place, Unary::Relu, &[Unary::ReluSquared]))],
        cause: "the feed-forward's activation is ReLU",
        remedy: "use the architecture's function: SiLU is x / (1 + exp(-x))",
        source: "measured",
        ..ROW
    },
    Fault {
        name: "relu-not-squared",
        entry: "65",
        edits: &[Edit::Unary(|f, place| {
            activation(place) == Some(Unary::ReluSquared) && replace(f, place, Unary::Relu, &[])
        })],
        cause: "the feed-forward's ReLU is not squared",
        remedy: "Nemotron, Arcee and RWKV square it: max(x, 0)^2",
        source: "vllm-project/vllm#6611",
        ..ROW
    },
    Fault {
        name: "relu-squared",
        entry: "65",
        edits: &[Edit::Unary(|f, place| replace(f, place, Unary::ReluSquared, &[]))],
        cause: "the feed-forward's activation is ReLU squared",
        remedy: "use the architecture's function",
        source: "a fault of activations in general",
        ..ROW
    },
    Fault {
        name: "sigmoid-for-silu",
        entry: "65",
        edits: &[Edit::Unary(|f, place| replace(f, place, Unary::Sigmoid, &[]))],
        cause: "the feed-forward's activation is the sigmoid alone (GLU instead of SwiGLU)",
        remedy: "multiply the sigmoid with x",
        source: "a fault of activations in general",
        ..ROW
    },
    Fault {
        name: "tanh-for-silu",
        entry: "65",
        edits: &[Edit::Unary(|f, place| replace(f, place, Unary::Tanh, &[]))],
        cause: "the feed-forward's activation is the hyperbolic tangent",
        remedy: "use the architecture's function",
        source: "a fault of activations in general",
        ..ROW
    },
    Fault {
        name: "activation-missing",
        entry: "65",
        edits: &[Edit::Unary(|f, place| replace(f, place, Unary::scale(1.0), &[]))],
        cause: "the feed-forward has no activation",
        remedy: "apply the architecture's function to the gate before multiplying with up; where there is no gate, to up",
        source: "a fault of activations in general",
        ..ROW
    },
    Fault {
        name: "xielu-without-beta-in-slope",
        entry: "65",
        edits: &[Edit::Unary(|f, _| match f {
            Unary::Xielu { negative, beta, .. } if *beta != 0.0 => {
                *negative -= *beta;
                true
            }
            _ => false,
        })],
        cause: "beta is not added to xIELU's coefficient for numbers below zero",
        remedy: "below zero the coefficient is beta + softplus(alpha_n), above softplus(alpha_p)",
        source: "Huang and Schlag 2024, arXiv:2411.13010",
        ..ROW
    },
    Fault {
        name: "xielu-slopes-exchanged",
        entry: "65",
        edits: &[Edit::Unary(|f, _| match f {
            Unary::Xielu { negative, positive, .. } => {
                std::mem::swap(negative, positive);
                negative != positive
            }
            _ => false,
        })],
        cause: "xIELU's coefficients for numbers above and below zero are exchanged",
        remedy: "below zero the coefficient is beta + softplus(alpha_n), above softplus(alpha_p)",
        source: "Huang and Schlag 2024, arXiv:2411.13010",
        ..ROW
    },
    Fault {
        name: "xielu-without-softplus",
        entry: "65",
        edits: &[Edit::Unary(|f, _| match f {
            Unary::Xielu { negative, positive, beta, .. } => {
                let before = |x: f32| x.exp_m1().ln();
                (*negative, *positive) = (*beta + before(*negative - *beta), before(*positive));
                true
            }
            _ => false,
        })],
        cause: "xIELU's coefficients are taken as the file has them, without softplus",
        remedy: "below zero the coefficient is beta + softplus(alpha_n), above softplus(alpha_p)",
        source: "Huang and Schlag 2024, arXiv:2411.13010",
        ..ROW
    },
    Fault {
        name: "xielu-of-first-layer",
        entry: "65",
        edits: &[Edit::Unary(|f, place| {
            let mut all = place.graph.nodes.iter().map(|node| &node.kind);
            let first = all.find_map(|kind| match kind {
                Kind::Unary(first @ Unary::Xielu { .. }) => Some(*first),
                _ => None,
            });
            let other = first.filter(|first| matches!(f, Unary::Xielu { .. }) && *first != *f);
            other.map(|first| *f = first).is_some()
        })],
        cause: "every layer has the first layer's coefficients of xIELU",
        remedy: "xielu.alpha_n, alpha_p, beta and eps have a number for each layer",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "activation-factor",
        entry: "65",
        variants: &[1.5],
        fit: Some(FACTORS),
        edits: gated!(other_factor, |g, gate, up, place| {
            let gate = g.cut(gate);
            silu(place.variant * gate) / place.variant * g.moved(up)
        }),
        cause: "the gate goes through x * sigmoid({} x)",
        remedy: "the factor is 1 for SiLU, 1.702 for gpt-oss",
        source: "sgl-project/sglang#39939",
        ..ROW
    },
    Fault {
        name: "gate-and-up-cut-interleaved",
        entry: "66",
        edits: &[
            Edit::Wiring(|inputs, place| rewire(inputs, place, of_one_product)),
            Edit::Inputs(|inputs, place| {
                let Some(gating) = Gating::of(place).filter(|gating| of_one_product(gating, place)) else {
                    return false;
                };
                let [gates, ups] = inputs.as_slice() else { return false };
                let rows = (0..gates.rows).map(|t| [gates.row(t), ups.row(t)].concat());
                let pairs = rows.flat_map(|row| row.as_chunks::<2>().0.to_vec());
                let result = |[gate, up]: [f32; 2]| gating.act(gating.cut(gate.into())) * gating.moved(up.into());
                let data = pairs.map(|pair| result(pair) as f32).collect();
                *inputs = vec![Rc::new(Value { data, ..**gates })];
                true
            }),
        ],
        cause: "the fused product is right; every other number of it is taken for the gate, and the others for up",
        remedy: "the first half is the gate, the second is up; gpt-oss alone has them side by side in its own files",
        source: "vllm-project/vllm#29273",
        ..ROW
    },
    Fault {
        name: "activation-on-up",
        entry: "66",
        edits: gated!(always, |g, gate, up, _| g.act(up) * gate),
        cause: "the activation is applied to up instead of the gate",
        remedy: "silu(gate) * up",
        source: "ml-explore/mlx-lm#767",
        ..ROW
    },
    Fault {
        name: "activation-on-both",
        entry: "66",
        edits: gated!(always, |g, gate, up, _| g.act(g.cut(gate)) * g.act(up)),
        cause: "the activation is applied to both gate and up",
        remedy: "silu(gate) * up",
        source: "ml-explore/mlx-lm#767",
        ..ROW
    },
    Fault {
        name: "activation-on-product",
        entry: "66",
        edits: gated!(always, |g, gate, up, _| g.act(gate * up)),
        cause: "the activation is applied to the product of gate and up",
        remedy: "silu(gate) * up: the gate alone goes through it",
        source: "ml-explore/mlx-lm#767",
        ..ROW
    },
    Fault {
        name: "up-added",
        entry: "67",
        edits: gated!(always, |g, gate, up, _| g.act(g.cut(gate)) + g.moved(up)),
        cause: "up is added to the activated gate instead of multiplied with it",
        remedy: "silu(gate) * up",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "up-omitted",
        entry: "67",
        edits: gated!(always, |g, gate, _up, _| g.act(g.cut(gate))),
        cause: "the gate is not multiplied with up",
        remedy: "silu(gate) * up",
        source: "google-research/timesfm#493",
        ..ROW
    },
    Fault {
        name: "gate-omitted",
        entry: "67",
        edits: gated!(always, |g, _gate, up, _| g.moved(up)),
        cause: "up goes on without the gate",
        remedy: "silu(gate) * up",
        source: "google-research/timesfm#493",
        ..ROW
    },
    Fault {
        name: "gate-cut-off",
        entry: "67",
        variants: &[1.0, 0.25],
        fit: Some(FACTORS),
        edits: gated!(other_limit, |g, gate, up, place| g.act(gate.min(place.variant)) * g.moved(up)),
        cause: "the gate is cut off at {} before its activation",
        remedy: "cut it off only where the architecture does (gpt-oss: at 7)",
        source: "vllm-project/vllm-xpu-kernels#393",
        ..ROW
    },
    Fault {
        name: "gate-limits-missing",
        entry: "67",
        edits: gated!(limited, |g, gate, up, _| g.act(gate) * (up + g.shift)),
        cause: "gate and up are not limited",
        remedy: "cut the gate off at 7, and up at -7 and 7, before anything else (gpt-oss: swiglu_limit)",
        source: "sgl-project/sglang#39939",
        ..ROW
    },
    Fault {
        name: "gate-limits",
        entry: "67",
        variants: &[1.0, 0.25],
        fit: Some(FACTORS),
        edits: gated!(|g, place| limited(g, place) && other_limit(g, place), |g, gate, up, place| {
            g.act(gate.min(place.variant)) * (up.clamp(-place.variant, place.variant) + g.shift)
        }),
        cause: "gate and up are limited to {}, not to the file's number",
        remedy: "the limit is swiglu_limit: 7 in gpt-oss",
        source: "sgl-project/sglang#39939",
        ..ROW
    },
    Fault {
        name: "up-shift-missing",
        entry: "67",
        edits: gated!(|g, _| g.shift != 0.0, |g, gate, up, _| g.act(g.cut(gate)) * (g.moved(up) - g.shift)),
        cause: "1 is not added to up before it is multiplied with the gate",
        remedy: "gpt-oss multiplies the gate with up + 1",
        source: "sgl-project/sglang#39939",
        ..ROW
    },
    Fault {
        name: "up-shift-on-gate",
        entry: "67",
        edits: gated!(|g, _| g.shift != 0.0, |g, gate, up, _| (g.act(g.cut(gate)) + g.shift) * (g.moved(up) - g.shift)),
        cause: "1 is added to the activated gate instead of up",
        remedy: "gpt-oss multiplies the gate with up + 1",
        source: "sgl-project/sglang#39939",
        ..ROW
    },
    Fault {
        name: "activation-factor-twice",
        entry: "65",
        edits: gated!(|g, _| g.f == Unary::GeluQuick, |g, gate, up, _| silu(1.702 * g.cut(gate)) * g.moved(up)),
        cause: "the gate is multiplied with 1.702 before its activation, outside of the sigmoid, too",
        remedy: "gate * sigmoid(1.702 * gate): the factor is inside of the sigmoid alone",
        source: "NVIDIA/TransformerEngine#2161",
        ..ROW
    },
    Fault {
        name: "plain-swiglu",
        entry: "65",
        edits: gated!(limited, |_, gate, up, _| silu(gate) * up),
        cause: "the experts compute silu(gate) * up, as Llama does",
        remedy: "gpt-oss: gate * sigmoid(1.702 gate) * (up + 1), with limits",
        source: "sgl-project/sglang#39939",
        ..ROW
    },
    Fault {
        name: "hard-swish-for-silu",
        entry: "65",
        edits: gated!(|g, _| g.f == Unary::Silu, |g, gate, up, _| {
            let gate = g.cut(gate);
            gate * (gate + 3.0).clamp(0.0, 6.0) / 6.0 * g.moved(up)
        }),
        cause: "the gate goes through x * min(max(x + 3, 0), 6) / 6 (hard swish)",
        remedy: "SiLU is x / (1 + exp(-x))",
        source: "Howard et al. 2019 (MobileNetV3); a fault of activations in general",
        ..ROW
    },
    Fault {
        name: "gated-product-scaled",
        entry: "67",
        variants: &[0.0625, 0.125, 0.5, 2.0],
        fit: Some(FACTORS),
        edits: gated!(|_, place| !near(place.variant, 1.0), |g, gate, up, place| {
            place.variant * g.act(g.cut(gate)) * g.moved(up)
        }),
        cause: "the gated product is multiplied with {}, and what comes of it is not divided by that",
        remedy: "where the product is made small against overflow, make what ffn_down gives as much larger",
        source: "a fault of half precision in general",
        ..ROW
    },
    Fault {
        name: "up-shifted-before-limit",
        entry: "67",
        edits: gated!(|g, place| limited(g, place) && g.shift != 0.0, |g, gate, up, _| {
            let limit = g.limit.unwrap_or(f64::INFINITY);
            g.act(g.cut(gate)) * (up + g.shift).clamp(-limit, limit)
        }),
        cause: "1 is added to up before it is limited",
        remedy: "gpt-oss: cut up off at -7 and 7 first, then add 1",
        source: "openai/gpt-oss: swiglu(x, alpha, limit)",
        ..ROW
    },
    Fault {
        name: "square-without-relu",
        entry: "65",
        wants: squares,
        edits: &[Edit::Output(|out, inputs, place| {
            let hit = squares(place);
            if hit {
                out.data.iter_mut().zip(&inputs[0].data).for_each(|(y, x)| *y = x * x);
            }
            hit
        })],
        cause: "numbers below zero are squared, too: no ReLU stands before the square",
        remedy: "max(x, 0)^2",
        source: "So et al. 2021 (Primer); a fault of activations in general",
        ..ROW
    },
    Fault {
        name: "xielu-exp-for-expm1",
        entry: "65",
        wants: |place| matches!(place.node.kind, Kind::Unary(Unary::Xielu { .. })),
        edits: &[Edit::Output(|out, inputs, place| {
            let Kind::Unary(Unary::Xielu { negative, .. }) = place.node.kind else { return false };
            let below = out.data.iter_mut().zip(&inputs[0].data).filter(|(_, x)| **x <= 0.0);
            below.for_each(|(y, _)| *y += negative);
            true
        })],
        cause: "xIELU takes exp(x) in place of exp(x) - 1 below zero",
        remedy: "below zero: alpha_n * (expm1(min(x, eps)) - x) + beta * x",
        source: "Huang and Schlag 2024, arXiv:2411.13010",
        ..ROW
    },
];
