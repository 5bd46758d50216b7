//! A complete tensor of a dump, as found: before its name and the order of its dimensions are understood.

use std::path::Path;

use half::{bf16, f16};

use super::{ImportError, caps};

/// Elements in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

/// How a file stores one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F16,
    Bf16,
    F32,
    F64,
    I32,
    U32,
    I64,
    U64,
}

impl Element {
    pub(super) fn size(self) -> usize {
        match self {
            Element::F16 | Element::Bf16 => 2,
            Element::F32 | Element::I32 | Element::U32 => 4,
            Element::F64 | Element::I64 | Element::U64 => 8,
        }
    }

    /// Whether this is a type of activations; the others are of token ids.
    pub(super) fn is_float(self) -> bool {
        matches!(self, Element::F16 | Element::Bf16 | Element::F32 | Element::F64)
    }

    /// Little-endian bytes as floats, a trailing part of an element left out. f64 rounds to nearest.
    pub(super) fn floats(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Element::F16 => each(bytes, |raw| f16::from_le_bytes(raw).to_f32()),
            Element::Bf16 => each(bytes, |raw| bf16::from_le_bytes(raw).to_f32()),
            Element::F32 => each(bytes, f32::from_le_bytes),
            Element::F64 => each(bytes, |raw| f64::from_le_bytes(raw) as f32),
            Element::I32 => each(bytes, |raw| i32::from_le_bytes(raw) as f32),
            Element::U32 => each(bytes, |raw| u32::from_le_bytes(raw) as f32),
            Element::I64 => each(bytes, |raw| i64::from_le_bytes(raw) as f32),
            Element::U64 => each(bytes, |raw| u64::from_le_bytes(raw) as f32),
        }
    }

    /// Little-endian bytes as token ids; `None` where they are no integers or one is negative or too large.
    pub(super) fn ids(self, bytes: &[u8]) -> Option<Vec<u32>> {
        match self {
            Element::I32 => each(bytes, |raw| u32::try_from(i32::from_le_bytes(raw)).ok()).into_iter().collect(),
            Element::U32 => Some(each(bytes, u32::from_le_bytes)),
            Element::I64 => each(bytes, |raw| u32::try_from(i64::from_le_bytes(raw)).ok()).into_iter().collect(),
            Element::U64 => each(bytes, |raw| u32::try_from(u64::from_le_bytes(raw)).ok()).into_iter().collect(),
            Element::F16 | Element::Bf16 | Element::F32 | Element::F64 => None,
        }
    }
}

fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|&raw| read(raw)).collect()
}

/// What one entry of a dump holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Values(Tensor),
    Ids(Vec<u32>),
}

/// Decodes one entry, whose byte count the caller has already checked against the shape.
pub(super) fn decode(
    path: &Path,
    name: &str,
    element: Element,
    shape: Vec<usize>,
    bytes: &[u8],
) -> Result<Content, ImportError> {
    if element.is_float() {
        caps::elements(path, &shape)?;
        return Ok(Content::Values(Tensor { shape, values: element.floats(bytes) }));
    }
    element.ids(bytes).map(Content::Ids).ok_or_else(|| ImportError::Dtype {
        path: path.to_owned(),
        name: name.to_owned(),
        found: format!("{element:?} with values that are no token ids"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_decode() {
        for (element, bytes, expected) in [
            (Element::F16, vec![0x00, 0x3e], 1.5),
            (Element::Bf16, vec![0xc0, 0x3f], 1.5),
            (Element::F32, 1.5_f32.to_le_bytes().to_vec(), 1.5),
            (Element::F64, 1.5_f64.to_le_bytes().to_vec(), 1.5),
            (Element::I64, 7_i64.to_le_bytes().to_vec(), 7.0),
        ] {
            assert_eq!(element.floats(&bytes), [expected], "{element:?}");
            assert_eq!(element.size(), bytes.len());
        }
        assert_eq!(Element::I32.ids(&(-1_i32).to_le_bytes()), None);
        assert_eq!(Element::I64.ids(&5_i64.to_le_bytes()), Some(vec![5]));
        assert_eq!(Element::F32.ids(&[0; 4]), None);
    }
}
