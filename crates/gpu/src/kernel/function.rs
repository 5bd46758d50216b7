//! The functions of one number as WGSL: each is an `f` of four numbers, with its parameters in `p`.

use candor_ops::Unary;

/// A function without its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    Silu,
    Gelu,
    GeluErf,
    GeluQuick,
    Relu,
    ReluSquared,
    Sigmoid,
    Tanh,
    Softplus,
    Exp,
    Affine,
    Clamp,
    SoftCap,
    Xielu,
}

impl Function {
    /// The function and its parameters.
    pub(crate) fn of(f: Unary) -> (Function, [f32; 4]) {
        let none = |function| (function, [0.0; 4]);
        match f {
            Unary::Silu => none(Function::Silu),
            Unary::Gelu => none(Function::Gelu),
            Unary::GeluErf => none(Function::GeluErf),
            Unary::GeluQuick => none(Function::GeluQuick),
            Unary::Relu => none(Function::Relu),
            Unary::ReluSquared => none(Function::ReluSquared),
            Unary::Sigmoid => none(Function::Sigmoid),
            Unary::Tanh => none(Function::Tanh),
            Unary::Softplus => none(Function::Softplus),
            Unary::Exp => none(Function::Exp),
            Unary::Affine { scale, offset } => (Function::Affine, [scale, offset, 0.0, 0.0]),
            Unary::Clamp { low, high } => (Function::Clamp, [low, high, 0.0, 0.0]),
            Unary::SoftCap(cap) => (Function::SoftCap, [cap, 0.0, 0.0, 0.0]),
            Unary::Xielu { negative, positive, beta, eps } => (Function::Xielu, [negative, positive, beta, eps]),
        }
    }

    /// The body of `f`; what it calls is in `math.wgsl`. Selects and not `max`, which may drop what is no number.
    pub(crate) fn source(self) -> &'static str {
        match self {
            Function::Silu => "fn f(x: vec4<f32>) -> vec4<f32> { return x / (1.0 + exponential(-x)); }",
            Function::Gelu => {
                "fn f(x: vec4<f32>) -> vec4<f32> { return x * sigmoid(1.5957691 * (x + 0.044715 * x * x * x)); }"
            }
            Function::GeluErf => "fn f(x: vec4<f32>) -> vec4<f32> { return x * normal(x); }",
            Function::GeluQuick => "fn f(x: vec4<f32>) -> vec4<f32> { return x * sigmoid(1.702 * x); }",
            Function::Relu => "fn f(x: vec4<f32>) -> vec4<f32> { return above_zero(x); }",
            Function::ReluSquared => "fn f(x: vec4<f32>) -> vec4<f32> { return above_zero(x) * above_zero(x); }",
            Function::Sigmoid => "fn f(x: vec4<f32>) -> vec4<f32> { return sigmoid(x); }",
            Function::Tanh => "fn f(x: vec4<f32>) -> vec4<f32> { return tangent(x); }",
            Function::Softplus => {
                "fn f(x: vec4<f32>) -> vec4<f32> { return above_zero(x) + log_of_more(exponential(-abs(x))); }"
            }
            Function::Exp => "fn f(x: vec4<f32>) -> vec4<f32> { return exponential(x); }",
            Function::Affine => "fn f(x: vec4<f32>) -> vec4<f32> { return p.a * x + vec4<f32>(p.b); }",
            Function::Clamp => {
                "fn f(x: vec4<f32>) -> vec4<f32> {
    let high = select(x, vec4<f32>(p.b), x > vec4<f32>(p.b));
    return select(high, vec4<f32>(p.a), x < vec4<f32>(p.a));
}"
            }
            Function::SoftCap => "fn f(x: vec4<f32>) -> vec4<f32> { return p.a * tangent(x / p.a); }",
            Function::Xielu => {
                "fn f(x: vec4<f32>) -> vec4<f32> {
    let below = p.a * exponential_less(select(x, vec4<f32>(p.d), x > vec4<f32>(p.d))) + (p.c - p.a) * x;
    return select(below, p.b * x * x + p.c * x, x > vec4<f32>(0.0));
}"
            }
        }
    }
}
