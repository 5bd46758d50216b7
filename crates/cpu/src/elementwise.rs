//! Functions of one number and norms, on slices.

use candor_kernels::F32Kernels;
use candor_ops::{Norm, NormKind, Unary};

/// `x = f(x)`.
pub(crate) fn unary(x: &mut [f32], f: Unary, f32: &F32Kernels) {
    let each = |x: &mut [f32], f: &dyn Fn(f32) -> f32| x.iter_mut().for_each(|x| *x = f(*x));
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    match f {
        Unary::Silu => (f32.silu)(x),
        Unary::Gelu => {
            const ROOT: f32 = 0.797_884_6; // sqrt(2 / pi)
            // x * (1 + tanh(y)) / 2 is x * sigmoid(2 y).
            each(x, &|x| x * sigmoid(2.0 * ROOT * (x + 0.044_715 * x * x * x)));
        }
        Unary::GeluQuick => each(x, &|x| x * sigmoid(1.702 * x)),
        Unary::Relu => each(x, &|x| x.max(0.0)),
        Unary::ReluSquared => each(x, &|x| x.max(0.0) * x.max(0.0)),
        Unary::Sigmoid => each(x, &sigmoid),
        Unary::Tanh => each(x, &f32::tanh),
        Unary::Exp => each(x, &f32::exp),
        Unary::Affine { scale, offset } => each(x, &|x| scale * x + offset),
        Unary::Clamp { low, high } => each(x, &|x| x.clamp(low, high)),
        // Rare enough to be computed as they are defined.
        Unary::GeluErf | Unary::Softplus | Unary::SoftCap(_) | Unary::Xielu { .. } => {
            each(x, &|x| f.at(f64::from(x)) as f32);
        }
    }
}

/// Norms a run in place.
pub(crate) fn norm(x: &mut [f32], norm: Norm, f32: &F32Kernels) {
    let len = x.len() as f32;
    let divisor = if norm.kind == NormKind::L2 { 1.0 } else { len };
    if norm.kind == NormKind::Layer {
        // In f64: the mean may be much larger than what is left without it.
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / f64::from(len);
        x.iter_mut().for_each(|x| *x = (f64::from(*x) - mean) as f32);
    }
    let square = (f32.dot)(x, x) / divisor;
    (f32.scale)(x, 1.0 / (square + norm.eps).sqrt());
}
