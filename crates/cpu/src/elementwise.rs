//! Functions of one number and norms, on slices.

use candor_kernels::{F32Kernels, Function};
use candor_ops::{Norm, NormKind, Unary};

/// `x = f(x)`.
pub(crate) fn unary(x: &mut [f32], f: Unary, f32: &F32Kernels) {
    let loop_of = match f {
        Unary::Silu => return (f32.silu)(x),
        Unary::Gelu => Function::Gelu,
        Unary::GeluErf => Function::GeluErf,
        Unary::GeluQuick => Function::GeluQuick,
        Unary::Relu => Function::Relu,
        Unary::ReluSquared => Function::ReluSquared,
        Unary::Sigmoid => Function::Sigmoid,
        Unary::Tanh => Function::Tanh,
        Unary::Softplus => Function::Softplus,
        Unary::Exp => Function::Exp,
        Unary::SoftCap(cap) => Function::SoftCap(cap),
        Unary::Affine { scale, offset } => return x.iter_mut().for_each(|x| *x = scale * *x + offset),
        Unary::Clamp { low, high } => return x.iter_mut().for_each(|x| *x = x.clamp(low, high)),
        // Rare enough to be computed as they are defined.
        Unary::Xielu { .. } => return x.iter_mut().for_each(|x| *x = f.at(f64::from(*x)) as f32),
    };
    (f32.function)(x, loop_of);
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
