//! Activations rounded to 8 bits: blocks of 32 values with an f32 scale.

/// Values per scale.
pub const Q8_BLOCK: usize = 32;

/// One row of 8-bit activations: `x[i] ~ quants[i] * scales[i / 32]`, `quants` within -127..=127.
#[derive(Clone, Copy, Debug)]
pub struct Q8Row<'a> {
    /// `[cols]`.
    pub quants: &'a [i8],
    /// `[cols / 32]`.
    pub scales: &'a [f32],
    /// Sums of `quants` over runs of 16, `[cols / 16]`: what minima and offsets of a weight block multiply.
    pub sums: &'a [i16],
}

/// Room for one row of 8-bit activations.
#[derive(Debug)]
pub struct Q8RowMut<'a> {
    /// `[cols]`.
    pub quants: &'a mut [i8],
    /// `[cols / 32]`.
    pub scales: &'a mut [f32],
    /// `[cols / 16]`.
    pub sums: &'a mut [i16],
}

/// Several rows, back to back in each slice.
#[derive(Clone, Copy, Debug)]
pub struct Q8Rows<'a> {
    /// Columns of a row, a multiple of 32.
    pub cols: usize,
    /// `[rows * cols]`.
    pub quants: &'a [i8],
    /// `[rows * cols / 32]`.
    pub scales: &'a [f32],
    /// `[rows * cols / 16]`.
    pub sums: &'a [i16],
}

impl<'a> Q8Rows<'a> {
    /// One row.
    #[inline]
    pub fn row(&self, row: usize) -> Q8Row<'a> {
        let (q, s, b) = (self.cols, self.cols / Q8_BLOCK, self.cols / 16);
        Q8Row {
            quants: &self.quants[row * q..(row + 1) * q],
            scales: &self.scales[row * s..(row + 1) * s],
            sums: &self.sums[row * b..(row + 1) * b],
        }
    }
}
