//! Rotary position embedding: which elements form a pair, and how fast each pair turns.

/// Which elements of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Neighbours `(0, 1), (2, 3), ...`: llama.cpp's NORM.
    Norm,
    /// Halves `(0, d/2), (1, d/2 + 1), ...`: llama.cpp's NEOX.
    Neox,
}

/// The rotation of a model, scaling included. Elements of a head beyond `2 * frequencies.len()` stay as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Which elements are rotated together.
    pub pairing: Pairing,
    /// Radians per position of each pair.
    pub frequencies: Vec<f64>,
    /// Factor on the rotated elements; 1 except for YaRN (Peng et al. 2023, section 3.4).
    pub magnitude: f64,
}

impl Rope {
    /// `(cos, sin)` of a pair at a position, times the magnitude, computed in f64.
    pub fn turn(&self, pair: usize, position: u32) -> (f64, f64) {
        let (sin, cos) = (f64::from(position) * self.frequencies[pair]).sin_cos();
        (cos * self.magnitude, sin * self.magnitude)
    }

    /// The indices of a pair's two elements within a head.
    pub fn elements(&self, pair: usize) -> (usize, usize) {
        match self.pairing {
            Pairing::Norm => (2 * pair, 2 * pair + 1),
            Pairing::Neox => (pair, pair + self.frequencies.len()),
        }
    }
}
