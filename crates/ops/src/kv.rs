//! What a key-value cache must hold.

use candor_quant::Format;

use crate::Error;

/// Element type of cached keys or values. Scores and sums accumulate in f32 whichever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvFormat {
    /// 32-bit floats.
    F32,
    /// IEEE half-precision floats, llama.cpp's default.
    #[default]
    F16,
    /// Blocks of 32 signed bytes with a half-precision scale, 34 bytes together: llama.cpp's `q8_0`.
    Q8_0,
}

impl KvFormat {
    /// The same as a format of tensors.
    pub const fn format(self) -> Format {
        match self {
            KvFormat::F32 => Format::F32,
            KvFormat::F16 => Format::F16,
            KvFormat::Q8_0 => Format::Q8_0,
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
    /// Whether the heads' widths are whole blocks of their formats.
    ///
    /// # Errors
    /// [`Error::Cache`] where they are not.
    pub fn check(&self) -> Result<(), Error> {
        for (what, format, dim) in [("keys", self.keys, self.key_dim), ("values", self.values, self.value_dim)] {
            let format = format.format();
            if !dim.is_multiple_of(format.block_len()) {
                return Err(Error::Cache { what, format, dim });
            }
        }
        Ok(())
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(dims: [usize; 2], keys: KvFormat, values: KvFormat) -> KvPlan {
        let [key_dim, value_dim] = dims;
        KvPlan { layers: 3, kv_heads: 2, key_dim, value_dim, context: 5, sequences: 7, keys, values }
    }

    #[test]
    fn bytes_are_those_of_the_formats() {
        let rows = 3 * 2 * 5 * 7;
        for (keys, values, bytes) in [
            (KvFormat::F32, KvFormat::F16, 64 * 4 + 96 * 2),
            (KvFormat::Q8_0, KvFormat::Q8_0, 2 * 34 + 3 * 34),
            (KvFormat::F16, KvFormat::Q8_0, 64 * 2 + 3 * 34),
        ] {
            let plan = plan([64, 96], keys, values);
            assert_eq!((plan.head_bytes(), plan.checked_bytes()), (Some(bytes), Some(rows * bytes)), "{plan:?}");
            assert!(plan.check().is_ok(), "{plan:?}");
        }
        let huge = KvPlan { context: usize::MAX / 8, ..plan([64, 64], KvFormat::F16, KvFormat::F16) };
        assert_eq!(huge.checked_bytes(), None);
    }

    #[test]
    fn heads_that_are_no_whole_blocks_are_refused() {
        let q8 = KvFormat::Q8_0;
        let message = plan([64, 80], q8, q8).check().expect_err("80 is no multiple of 32").to_string();
        assert_eq!(message, "cache of values in q8_0: expected heads of a multiple of 32, got 80");
        let message = plan([48, 64], q8, KvFormat::F16).check().expect_err("nor is 48").to_string();
        assert_eq!(message, "cache of keys in q8_0: expected heads of a multiple of 32, got 48");
        assert!(plan([48, 80], KvFormat::F16, KvFormat::F32).check().is_ok());
    }
}
