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
    /// `x * Phi(x)`, the normal distribution's, which is GELU itself.
    GeluErf,
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
        Function::Gelu => each(x, |x| x * sigmoid(2.0 * 0.797_884_6 * (x + 0.044_715 * x * x * x))),
        Function::GeluErf => each(x, |x| 0.5 * x * if x < 0.0 { tail(x) } else { 2.0 - tail(x) }),
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
    let p = p * z + 2.063_909e-2;
    let p = p * z - 5.373_971_6e-2;
    let p = p * z + 1.333_144_2e-1;
    let p = p * z - 3.333_328e-1;
    let near = p * z * x + x;
    let away = (1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0)).copysign(x);
    if x.abs() < 0.625 { near } else { away }
}

/// `erfc(|x| / sqrt(2))`, the share of a normal distribution that lies beyond `x` on either side: `t e^(p(t) - x^2 / 2)` with
/// `t` of 0 to 1 and a polynomial that was fitted at Chebyshev's nodes to 4e-8 for `x` up to 13.3.
#[inline(always)]
fn tail(x: f32) -> f32 {
    let t = 1.0 / (1.0 + (0.5 * std::f32::consts::FRAC_1_SQRT_2) * x.abs());
    let u = t - 0.5;
    let p = 1.395_468_3e-1;
    let p = p * u - 2.338_073_8e-2;
    let p = p * u - 2.625_357_5e-1;
    let p = p * u + 1.073_624_3e-1;
    let p = p * u + 2.795_236_4e-1;
    let p = p * u - 1.575_741_5e-1;
    let p = p * u - 3.750_745e-1;
    let p = p * u + 1.893_647_2e-1;
    let p = p * u + 1.345_285_7;
    let p = p * u - 6.717_940_6e-1;
    t * exp(p - 0.5 * x * x)
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
