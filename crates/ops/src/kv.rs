//! What a key-value cache must hold.

use candor_quant::Format;

/// Element type of cached keys or values. Scores and sums accumulate in f32 whichever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvFormat {
    /// 32-bit floats.
    F32,
    /// IEEE half-precision floats, llama.cpp's default.
    #[default]
    F16,
}

impl KvFormat {
    /// The same as a format of tensors.
    pub const fn format(self) -> Format {
        match self {
            KvFormat::F32 => Format::F32,
            KvFormat::F16 => Format::F16,
        }
    }
}

/// The dimensions of a cache: every sequence has room for `context` positions in every layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvPlan {
    /// Layers that attend.
    pub layers: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a key head.
    pub key_dim: usize,
    /// Width of a value head.
    pub value_dim: usize,
    /// Positions per sequence.
    pub context: usize,
    /// Independent sequences.
    pub sequences: usize,
    /// Element type of keys.
    pub keys: KvFormat,
    /// Element type of values.
    pub values: KvFormat,
}

impl KvPlan {
    /// Bytes of one position's keys and values in one head; `None` where a width is no whole number of the format's
    /// blocks.
    pub fn head_bytes(&self) -> Option<usize> {
        let keys = self.keys.format().row_bytes(self.key_dim)?;
        keys.checked_add(self.values.format().row_bytes(self.value_dim)?)
    }

    /// Bytes of keys and values together; `None` where no machine could hold them. A backend may round widths and
    /// positions up to multiples of its own.
    pub fn checked_bytes(&self) -> Option<usize> {
        let rows = self.layers.checked_mul(self.kv_heads)?.checked_mul(self.context)?.checked_mul(self.sequences)?;
        rows.checked_mul(self.head_bytes()?)
    }
}
