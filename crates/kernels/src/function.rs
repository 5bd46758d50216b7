//! Functions of one number on slices, written once as the loops of `lanes` are. Nothing branches on a value.

use crate::lanes::exp;

/// A function with a loop of its own; SiLU, which most models have, has an entry in the table instead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `x * sigmoid(sqrt(8 / pi) * (x + 0.044715 x^3))`, which is the tanh formula of GELU.
    Gelu,
    /// `x * sigmoid(1.702 x)`.
    GeluQuick,
    /// `ln(1 + exp(x))`.
    Softplus,
    /// The exponential.
    Exp,
    /// `cap * tanh(x / cap)`.
    SoftCap(f32),
    /// `max(x, 0)`, NaN becoming 0.
    Relu,
    /// Its square.
    ReluSquared,
}

/// `x = f(x)`.
#[inline(always)]
pub fn function(x: &mut [f32], f: Function) {
    match f {
        Function::Sigmoid => each(x, sigmoid),
        Function::Tanh => each(x, tanh),
        Function::Gelu => each(x, |x| x * sigmoid(1.595_769_1 * (x + 0.044_715 * x * x * x))),
        Function::GeluQuick => each(x, |x| x * sigmoid(1.702 * x)),
        Function::Softplus => each(x, |x| relu(x) + log1p(exp(-x.abs()))),
        Function::Exp => each(x, exp),
        Function::SoftCap(cap) => each(x, |x| cap * tanh(x / cap)),
        Function::Relu => each(x, relu),
        Function::ReluSquared => each(x, |x| relu(x) * relu(x)),
    }
}

#[inline(always)]
fn each(x: &mut [f32], f: impl Fn(f32) -> f32) {
    for x in x {
        *x = f(*x);
    }
}

#[inline(always)]
fn relu(x: f32) -> f32 {
    if x > 0.0 { x } else { 0.0 }
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Near zero the polynomial of Cephes' tanhf (Moshier), elsewhere by the exponential.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    let z = x * x;
    let p = -5.704_988_7e-3;
    let p = p * z + 2.063_908_9e-2;
    let p = p * z - 5.373_971_6e-2;
    let p = p * z + 1.333_144_2e-1;
    let p = p * z - 3.333_328_2e-1;
    let near = p * z * x + x;
    let away = (1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0)).copysign(x);
    if x.abs() < 0.625 { near } else { away }
}

/// `ln(1 + u)` for `u` within 0 and 1: the logarithm by the polynomial of Cephes' logf (Moshier), and what `1 + u` lost by
/// rounding put right by a factor (Goldberg 1991, theorem 4).
#[inline(always)]
fn log1p(u: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let w = 1.0 + u;
    let large = w > std::f32::consts::SQRT_2;
    let (x, e) = if large { (0.5 * w - 1.0, 1.0) } else { (w - 1.0, 0.0) };
    let z = x * x;
    let p = 7.037_683_6e-2;
    let p = p * x - 1.151_461e-1;
    let p = p * x + 1.167_699_87e-1;
    let p = p * x - 1.242_014_1e-1;
    let p = p * x + 1.424_932_3e-1;
    let p = p * x - 1.666_805_8e-1;
    let p = p * x + 2.000_071_5e-1;
    let p = p * x - 2.499_999_4e-1;
    let p = p * x + 3.333_333_1e-1;
    let log = x + (x * z * p + e * LN2_LOW - 0.5 * z) + e * LN2_HIGH;
    if w == 1.0 { u } else { log * (u / (w - 1.0)) }
}
