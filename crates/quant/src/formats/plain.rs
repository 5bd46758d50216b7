//! Plain numbers: F32, F16, BF16, F64 and the integers. A block is one element.

use super::{Codec, Words};
use crate::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

macro_rules! plain {
    ($name:ident $width:literal [$($words:expr)?] $decode:expr, $encode:expr) => {
        pub(crate) const $name: Codec = Codec {
            decode: |bytes, out| {
                for (bytes, out) in bytes.as_chunks::<$width>().0.iter().zip(out) {
                    *out = $decode(*bytes);
                }
            },
            encode: $encode,
            words: &[$($words)?],
        };
    };
}

macro_rules! encoder {
    ($width:literal $encode:expr) => {
        Some(|values, _, bytes| {
            for (value, bytes) in values.iter().zip(bytes.as_chunks_mut::<$width>().0) {
                *bytes = $encode(*value).to_le_bytes();
            }
        })
    };
}

plain!(F32 4 [Words::new(0, 4, 1)] f32::from_le_bytes, encoder!(4 |value: f32| value));
plain!(F16 2 [Words::new(0, 2, 1)] |b| f16_to_f32(u16::from_le_bytes(b)), encoder!(2 f32_to_f16));
plain!(BF16 2 [Words::new(0, 2, 1)] |b| bf16_to_f32(u16::from_le_bytes(b)), encoder!(2 f32_to_bf16));
plain!(F64 8 [Words::new(0, 8, 1)] |b| f64::from_le_bytes(b) as f32, None);
plain!(I8 1 [] |b| i8::from_le_bytes(b) as f32, None);
plain!(I16 2 [Words::new(0, 2, 1)] |b| i16::from_le_bytes(b) as f32, None);
plain!(I32 4 [Words::new(0, 4, 1)] |b| i32::from_le_bytes(b) as f32, None);
plain!(I64 8 [Words::new(0, 8, 1)] |b| i64::from_le_bytes(b) as f32, None);
