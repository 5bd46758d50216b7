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

/// `ln(1 + u)` for `u` within 0 and 1, as `2 artanh(s)` with `s = u / (2 + u)` up to 1/3, by its series: terms are all
/// positive, and `s` is small where `u` is, so that nothing cancels.
#[inline(always)]
fn log1p(u: f32) -> f32 {
    let s = u / (2.0 + u);
    let z = s * s;
    let p = 1.0 / 15.0;
    let p = p * z + 1.0 / 13.0;
    let p = p * z + 1.0 / 11.0;
    let p = p * z + 1.0 / 9.0;
    let p = p * z + 1.0 / 7.0;
    let p = p * z + 1.0 / 5.0;
    let p = p * z + 1.0 / 3.0;
    2.0 * (s + s * z * p)
}
