//! Functions of one number.

/// A function that is applied to each element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x * Phi(x)` by the tanh formula (Hendrycks and Gimpel 2016, section 2).
    Gelu,
    /// `x * Phi(x)` by the error function.
    GeluErf,
    /// `x / (1 + exp(-1.702 x))`, the same authors' coarser formula.
    GeluQuick,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2` (So et al. 2021).
    ReluSquared,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `ln(1 + exp(x))`.
    Softplus,
    /// The exponential.
    Exp,
    /// `scale * x + offset`.
    Affine {
        /// Factor.
        scale: f32,
        /// Added afterwards.
        offset: f32,
    },
    /// The nearest number of `low..=high`.
    Clamp {
        /// Least result.
        low: f32,
        /// Greatest result.
        high: f32,
    },
    /// `cap * tanh(x / cap)` (Gemma Team 2024, section 2).
    SoftCap(f32),
    /// xIELU (Huang and Schlag 2024), with the two coefficients already made positive.
    Xielu {
        /// Of the part below zero.
        negative: f32,
        /// Of the part above zero.
        positive: f32,
        /// Slope at zero.
        beta: f32,
        /// Greatest argument of the part below zero.
        eps: f32,
    },
}

impl Unary {
    /// Multiplication by a number.
    pub const fn scale(scale: f32) -> Unary {
        Unary::Affine { scale, offset: 0.0 }
    }

    /// The function, in f64.
    pub fn at(self, x: f64) -> f64 {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        match self {
            Unary::Silu => x * sigmoid(x),
            Unary::Gelu => {
                0.5 * x * (1.0 + (f64::sqrt(2.0 / std::f64::consts::PI) * (x + 0.044_715 * x * x * x)).tanh())
            }
            Unary::GeluErf => 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            Unary::GeluQuick => x * sigmoid(1.702 * x),
            Unary::Relu => x.max(0.0),
            Unary::ReluSquared => x.max(0.0).powi(2),
            Unary::Sigmoid => sigmoid(x),
            Unary::Tanh => x.tanh(),
            // The usual formula overflows for large numbers, where the result is the number itself.
            Unary::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            Unary::Exp => x.exp(),
            Unary::Affine { scale, offset } => f64::from(scale) * x + f64::from(offset),
            Unary::Clamp { low, high } => x.clamp(low.into(), high.into()),
            Unary::SoftCap(cap) => f64::from(cap) * (x / f64::from(cap)).tanh(),
            Unary::Xielu { negative, positive, beta, eps } => {
                let beta = f64::from(beta);
                if x > 0.0 {
                    f64::from(positive) * x * x + beta * x
                } else {
                    f64::from(negative) * (x.min(eps.into()).exp_m1() - x) + beta * x
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Unary;

    /// Values of Python's `math`, or by hand where they are exact.
    #[test]
    fn known_values() {
        for (f, x, expected) in [
            (Unary::Silu, 1.0, 0.731_058_578_630_004_9),
            (Unary::Gelu, 1.0, 0.841_191_990_608_276_1),
            (Unary::GeluErf, 1.0, 0.841_344_746_068_542_9),
            (Unary::GeluQuick, 1.0, 0.845_795_765_932_821_2),
            (Unary::Relu, -2.0, 0.0),
            (Unary::ReluSquared, 3.0, 9.0),
            (Unary::Sigmoid, 0.0, 0.5),
            (Unary::Softplus, 0.0, std::f64::consts::LN_2),
            (Unary::Softplus, 1000.0, 1000.0),
            (Unary::Affine { scale: 2.0, offset: 1.0 }, 3.0, 7.0),
            (Unary::Clamp { low: -1.0, high: 2.0 }, 5.0, 2.0),
            (Unary::SoftCap(2.0), 1e9, 2.0),
            (Unary::Xielu { negative: 0.5, positive: 2.0, beta: 0.5, eps: -1e-6 }, 3.0, 19.5),
        ] {
            assert!((f.at(x) - expected).abs() < 1e-12, "{f:?} of {x}: {}", f.at(x));
        }
    }
}
