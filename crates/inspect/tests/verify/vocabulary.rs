//! Operations that no tiny model here has, asked for directly: right backends pass, and a wrong one is named.

use candor::{Device, Format};
use candor_inspect::verify::{Operations, Work, watched};
use candor_ops::{
    Attention, Columns, Decay, Error, Gate, Heads, KvFormat, KvPlan, LayerCache, Mask, Norm, NormKind, Ops, Recurrence,
    Reference, Relative, Router, Step, Unary,
};
use candor_testing::{
    Random,
    backend::{self, floats},
};

use super::{broken::Broken, cpu, kernels};

/// Every operation, on two steps of one sequence.
struct Everything(Format);

/// A choice of two, where the second expert is so much better than the third.
struct Tie(f32);

const ROUTER: Router =
    Router { experts: 8, used: 2, gate: Gate::Softmax, groups: (1, 1), normalized: true, scale: 2.5 };
const HEADS: Heads = Heads { heads: 4, kv_heads: 2, key_dim: 16, value_dim: 16, scale: 0.25 };
const WIDTH: usize = 64;
/// Long enough for buckets of more than one distance.
const STEPS: [std::ops::Range<u32>; 2] = [0..9, 9..12];

impl Work for Everything {
    fn run<B: Ops>(&self, ops: &mut B) -> Result<(), Error> {
        let layers = vec![
            LayerCache { states: [3 * WIDTH, 4 * 16 * 8, 4 * 16 * 8], ..LayerCache::attention(2, 16, 16) },
            LayerCache { states: [4 * 16 * 8, 0, 0], ..LayerCache::attention(2, 16, 16) },
        ];
        let (keys, values) = (KvFormat::F16, KvFormat::F32);
        let mut kv = ops.kv(&KvPlan { layers, context: 12, step: 12, sequences: 1, pool: None, keys, values });
        for (seed, positions) in STEPS.into_iter().enumerate() {
            let positions: Vec<u32> = positions.collect();
            let zeros = vec![0; positions.len()];
            let step = Step { tokens: &zeros, positions: &positions, sequences: &zeros, outputs: &[], decoding: 0 };
            let random = Random(seed as u64 + 5);
            Rows { ops, random, rows: positions.len(), format: self.0 }.run(&mut kv, &step)?;
        }
        Ok(())
    }
}

/// Rows of a step, and where numbers come from.
struct Rows<'a, B: Ops> {
    ops: &'a mut B,
    random: Random,
    rows: usize,
    format: Format,
}

impl<B: Ops> Rows<'_, B> {
    fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.random.signed()).collect()
    }

    /// Random numbers, changed.
    fn buf(&mut self, rows: usize, width: usize, change: impl Fn(f32) -> f32) -> B::Buf {
        let values: Vec<f32> = self.numbers(rows * width).into_iter().map(change).collect();
        let mut buf = self.ops.buffer(rows, width);
        self.ops.upload(&mut buf, &values, &Step { tokens: &vec![0; rows], ..Step::default() });
        buf
    }

    fn row(&mut self, width: usize) -> B::Buf {
        self.buf(self.rows, width, |x| x)
    }

    fn weight(&mut self, rows: usize, cols: usize) -> Result<B::Weight, Error> {
        let values = self.numbers(rows * cols);
        self.ops.weight(floats(rows, cols, &values))
    }

    fn matrix(&mut self, rows: usize, cols: usize) -> Result<B::Weight, Error> {
        let seed = self.random.bits();
        self.ops.weight(backend::Random(seed).matrix(self.format, rows, cols))
    }

    fn run(&mut self, kv: &mut B::Kv, step: &Step) -> Result<(), Error> {
        self.elements(step)?;
        self.states(kv, step)?;
        self.attention(kv, step)?;
        self.experts()
    }

    fn elements(&mut self, step: &Step) -> Result<(), Error> {
        let (wide, narrow) = (self.weight(1, WIDTH)?, self.weight(1, 16)?);
        for (kind, run, weight, bias) in [
            (NormKind::Layer, WIDTH, Some(&wide), Some(&wide)),
            (NormKind::Layer, 16, None, None),
            (NormKind::Rms, 16, Some(&wide), None),
            (NormKind::Rms, WIDTH, None, Some(&wide)),
            (NormKind::L2, 16, Some(&narrow), None),
        ] {
            let mut x = self.buf(self.rows, WIDTH, |x| x + 3.0);
            self.ops.norm(&mut x, Norm { kind, run, eps: 1e-5 }, weight, bias);
        }
        for f in [
            Unary::Gelu,
            Unary::GeluErf,
            Unary::GeluQuick,
            Unary::Relu,
            Unary::ReluSquared,
            Unary::Sigmoid,
            Unary::Tanh,
            Unary::Softplus,
            Unary::Exp,
            Unary::Affine { scale: 0.3, offset: 1.0 },
            Unary::Clamp { low: -2.0, high: 3.0 },
            Unary::SoftCap(5.0),
            Unary::Xielu { negative: 0.8, positive: 0.7, beta: 0.5, eps: -1e-6 },
        ] {
            let mut x = self.buf(self.rows, WIDTH, |x| 9.0 * x);
            self.ops.unary(&mut x, f);
        }
        let (x, mut out) = (self.row(WIDTH), self.ops.buffer(self.rows, 48));
        self.ops.copy(&mut out, &x, Columns { groups: 2, len: 16, from: (8, 32), to: (0, 16) });
        self.ops.copy(&mut out, &x, Columns::run(16, 40, 32));
        let (mut x, table) = (self.row(WIDTH), self.matrix(12, WIDTH)?);
        self.ops.add_positions(&mut x, &table, step);
        self.ops.mul_columns(&mut x, &wide);
        let (y, mut dots) = (self.row(4), self.ops.buffer(self.rows, 4));
        self.ops.mul_groups(&mut x, &y);
        let z = self.row(WIDTH);
        self.ops.dot_groups(&mut dots, &x, &z);
        let (heads, mut out) = (self.matrix(2 * 24, 32)?, self.ops.buffer(self.rows, 48));
        self.ops.matmul_heads(&mut out, &z, &heads, 2);
        Ok(())
    }

    fn states(&mut self, kv: &mut B::Kv, step: &Step) -> Result<(), Error> {
        let (x, taps, mut out) = (self.row(WIDTH), self.weight(WIDTH, 4)?, self.ops.buffer(self.rows, WIDTH));
        self.ops.conv(&mut out, kv, (0, 0), &x, &taps, step);
        let (q, k, v) = (self.row(2 * 16), self.row(2 * 16), self.row(4 * 8));
        let (by_key, by_head) =
            (self.buf(self.rows, 4 * 16, |x| x.abs().sqrt()), self.buf(self.rows, 4, |x| x.abs().sqrt()));
        let time = self.buf(self.rows, 4, f32::abs);
        let (rate, bonus) = (self.numbers(4 * 16), self.weight(1, 4 * 16)?);
        let rate: Vec<f32> = rate.into_iter().map(|x| -x.abs()).collect();
        let rate = self.ops.weight(floats(4, 16, &rate))?;
        // A row of length 1 or less, and what is read along it taken away, once.
        let mut along = self.row(4 * 16);
        self.ops.norm(&mut along, Norm { kind: NormKind::L2, run: 16, eps: 1e-5 }, None, None);
        let (mut back, mut out) = (self.ops.buffer(self.rows, 4 * 16), self.ops.buffer(self.rows, 4 * 8));
        self.ops.copy(&mut back, &along, Columns::run(4 * 16, 0, 0));
        self.ops.unary(&mut back, Unary::scale(-1.0));
        let inputs = |decay| Recurrence {
            heads: 4,
            key_heads: 2,
            key_dim: 16,
            value_dim: 8,
            q: &q,
            k: &k,
            v: &v,
            decay,
            erase: None,
            bonus: None,
        };
        let fading = Recurrence { bonus: Some(&bonus), ..inputs(Decay::Keys(&by_key)) };
        let erasing = Recurrence { erase: Some((&along, &back)), ..inputs(Decay::Heads(&by_head)) };
        self.ops.recur(&mut out, kv, (0, 1), fading, step);
        self.ops.recur(&mut out, kv, (0, 2), erasing, step);
        self.ops.recur(&mut out, kv, (1, 0), inputs(Decay::Rates { time: &time, rate: &rate }), step);
        Ok(())
    }

    fn attention(&mut self, kv: &mut B::Kv, step: &Step) -> Result<(), Error> {
        let (q, k, v) = (self.buf(self.rows, 64, |x| 4.0 * x), self.row(32), self.row(32));
        let (sinks, table) = (self.weight(1, 4)?, self.weight(8, 4)?);
        self.ops.kv_write(kv, 0, &k, &v, step);
        let mut out = self.ops.buffer(self.rows, 64);
        let causal = Attention::causal(HEADS);
        let relative = Some(Relative { table: &table, buckets: 8, most: 10 });
        for attention in [
            causal,
            Attention { mask: Mask::Window(4), ..causal },
            Attention { mask: Mask::Chunk(5), ..causal },
            Attention { mask: Mask::Whole, relative, ..causal },
            Attention { mask: Mask::Around(2), ..causal },
            Attention { relative, ..causal },
            Attention { soft_cap: Some(2.0), sinks: Some(&sinks), ..causal },
            Attention { alibi: Some(8.0), ..causal },
        ] {
            self.ops.attend(&mut out, &q, kv, 0, attention, step);
        }
        Ok(())
    }

    fn experts(&mut self) -> Result<(), Error> {
        let (experts, used) = (ROUTER.experts, ROUTER.used);
        let (bias, x) = (self.weight(1, experts)?, self.row(WIDTH));
        let (up, down, biases) =
            (self.matrix(experts * 32, WIDTH)?, self.matrix(experts * WIDTH, 32)?, self.weight(experts, 32)?);
        let mut routes = self.ops.routes(self.rows, used);
        for (router, bias) in [
            (Router { gate: Gate::Softmax, normalized: false, ..ROUTER }, None),
            (Router { gate: Gate::SoftmaxOfChosen, ..ROUTER }, None),
            (Router { gate: Gate::Sigmoid, groups: (4, 1), ..ROUTER }, Some(&bias)),
        ] {
            let logits = self.buf(self.rows, experts, |x| 4.0 * x);
            self.ops.route(&mut routes, &logits, bias, router);
            let (mut hidden, mut out) =
                (self.ops.buffer(self.rows * used, 32), self.ops.buffer(self.rows * used, WIDTH));
            self.ops.matmul_experts(&mut hidden, &x, &up, &routes);
            self.ops.add_bias_experts(&mut hidden, &biases, &routes);
            self.ops.matmul_experts(&mut out, &hidden, &down, &routes);
            self.ops.scale_experts(&mut out, &routes);
            let mut sum = self.ops.buffer(self.rows, WIDTH);
            self.ops.sum_experts(&mut sum, &out, &routes);
        }
        Ok(())
    }
}

impl Work for Tie {
    fn run<B: Ops>(&self, ops: &mut B) -> Result<(), Error> {
        let (mut logits, mut routes) = (ops.buffer(1, 8), ops.routes(1, 2));
        let mut values = [0.0; 8];
        (values[0], values[1], values[2]) = (3.0, 1.0 + self.0, 1.0);
        ops.upload(&mut logits, &values, &Step { tokens: &[0], ..Step::default() });
        ops.route(&mut routes, &logits, None, ROUTER);
        Ok(())
    }
}

fn breaking(device: Device, work: &impl Work, fault: &'static str) -> Operations {
    match device {
        Device::Reference => watched(Broken { right: Reference, fault }, work),
        _ => watched(Broken { right: cpu(kernels()), fault }, work),
    }
    .unwrap()
}

fn failed(found: &Operations) -> Vec<&str> {
    let failed = found.classes.iter().filter(|operation| !operation.passes());
    failed.map(|operation| operation.class.operation.as_str()).collect()
}

const FORMATS: [Format; 4] = [Format::F32, Format::F16, Format::Q8_0, Format::Q4_0];
const DEVICES: [Device; 2] = [Device::Cpu, Device::Reference];

#[test]
fn right_backends_pass() {
    for (format, device) in FORMATS.into_iter().flat_map(|format| DEVICES.map(|device| (format, device))) {
        let found = breaking(device, &Everything(format), "");
        assert_eq!(failed(&found), [""; 0], "{format} {device:?}: {found:#?}");
        for name in [
            "norm",
            "unary",
            "copy",
            "add_positions",
            "mul_columns",
            "mul_groups",
            "dot_groups",
            "matmul_heads",
            "conv",
            "recur",
            "kv_write+attend",
            "route",
            "matmul_experts",
            "add_bias_experts",
            "scale_experts",
            "sum_experts",
        ] {
            assert!(found.classes.iter().any(|class| class.class.operation == name), "{name} was not checked");
        }
    }
}

/// Fault, and the class that must be named.
const FAULTS: &[(&str, &str)] = &[
    ("norm", "norm"),
    ("unary", "unary"),
    ("copy", "copy"),
    ("copy, columns", "copy"),
    ("add_positions", "add_positions"),
    ("add_positions, restarts", "add_positions"),
    ("mul_columns", "mul_columns"),
    ("mul_groups", "mul_groups"),
    ("dot_groups", "dot_groups"),
    ("matmul_heads", "matmul_heads"),
    ("conv", "conv"),
    ("conv, forgets", "conv"),
    ("recur", "recur"),
    ("recur, forgets", "recur"),
    ("recur, erase", "recur"),
    ("recur, bonus", "recur"),
    ("attend, mask", "kv_write+attend"),
    ("attend, window", "kv_write+attend"),
    ("attend, soft cap", "kv_write+attend"),
    ("attend, alibi", "kv_write+attend"),
    ("attend, sinks", "kv_write+attend"),
    ("attend, relative", "kv_write+attend"),
    ("route, scale", "route"),
    ("route, bias", "route"),
    ("route, groups", "route"),
    ("route, normalized", "route"),
    ("matmul_experts", "matmul_experts"),
    ("add_bias_experts", "add_bias_experts"),
    ("scale_experts", "scale_experts"),
    ("sum_experts", "sum_experts"),
];

#[test]
fn the_wrong_operation_is_named_and_no_other() {
    for (format, device) in FORMATS.into_iter().flat_map(|format| DEVICES.map(|device| (format, device))) {
        for &(fault, class) in FAULTS {
            let found = breaking(device, &Everything(format), fault);
            assert_eq!(failed(&found), [class], "{fault}, {format}, {device:?}: {found:#?}");
        }
    }
}

#[test]
fn experts_that_are_as_good_may_be_taken_for_each_other() {
    for (better, expected) in [(0.0, &[][..]), (1e-7, &[]), (1e-3, &["route"])] {
        let found = breaking(Device::Cpu, &Tie(better), "route, third");
        assert_eq!(failed(&found), expected, "{better}");
    }
}
