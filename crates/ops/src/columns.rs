//! Which columns of a buffer are copied where.

/// `groups` runs of `len` columns: run `g` is read at `from.0 + g * from.1` and written at `to.0 + g * to.1`. A step of 0
/// reads the same run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Runs in a row.
    pub groups: usize,
    /// Columns of a run.
    pub len: usize,
    /// First column read, and columns from there to the next run.
    pub from: (usize, usize),
    /// First column written, and columns from there to the next run.
    pub to: (usize, usize),
}

impl Columns {
    /// `len` columns from `from` to `to`.
    pub const fn run(len: usize, from: usize, to: usize) -> Columns {
        Columns { groups: 1, len, from: (from, 0), to: (to, 0) }
    }

    /// The end of the last column read, and of the last written.
    pub fn ends(&self) -> (usize, usize) {
        let last = self.groups.saturating_sub(1);
        (self.from.0 + last * self.from.1 + self.len, self.to.0 + last * self.to.1 + self.len)
    }
}
