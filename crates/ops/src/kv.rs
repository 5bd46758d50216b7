//! What a key-value cache must hold.

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
    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            KvFormat::F32 => 4,
            KvFormat::F16 => 2,
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
    /// Bytes of keys and values together; `None` where no machine could hold them.
    pub fn checked_bytes(&self) -> Option<usize> {
        let rows = self.layers.checked_mul(self.kv_heads)?.checked_mul(self.context)?.checked_mul(self.sequences)?;
        let keys = self.key_dim.checked_mul(self.keys.bytes())?;
        let values = self.value_dim.checked_mul(self.values.bytes())?;
        rows.checked_mul(keys.checked_add(values)?)
    }
}
