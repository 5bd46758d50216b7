//! The codebooks of the IQ formats on the device: shaders look points up in a buffer that is made once for all weights of
//! a format.
//!
//! They are too long for constants of a shader, which drivers may copy to each invocation's memory; and loading them to
//! workgroup memory costs a barrier and leaves tiles too little of it. So caches hold them: 1 to 16 KiB, as in `quant`.

use std::sync::PoisonError;

use candor_quant::{Format, codebook};

use crate::device::{Device, Storage};

/// The points that a format's weights are: signed bytes, 4 or 8 of them each.
fn points(format: Format) -> Option<&'static [u8]> {
    Some(match format {
        Format::Iq1S | Format::Iq1M => bytemuck::cast_slice(&codebook::IQ1),
        Format::Iq2Xxs => bytemuck::cast_slice(&codebook::IQ2_XXS),
        Format::Iq2Xs => bytemuck::cast_slice(&codebook::IQ2_XS),
        Format::Iq2S => bytemuck::cast_slice(&codebook::IQ2_S),
        Format::Iq3Xxs => bytemuck::cast_slice(&codebook::IQ3_XXS),
        Format::Iq3S => bytemuck::cast_slice(&codebook::IQ3_S),
        _ => return None,
    })
}

impl Device {
    /// The buffer in which a format's shaders look points up, made when first asked for; `None` where there are none.
    pub(crate) fn book(&self, format: Format) -> Result<Option<Storage>, String> {
        let Some(points) = points(format) else { return Ok(None) };
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(storage) = books.get(&format) {
            return Ok(Some(storage.clone()));
        }
        let storage = self.storage(points.len() as u64)?;
        self.queue.write_buffer(&storage.buffer, 0, points);
        books.insert(format, storage.clone());
        Ok(Some(storage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::DECODERS;

    /// What is bound and what is declared are found apart.
    #[test]
    fn a_format_has_points_where_its_shader_looks_them_up() {
        for decoder in DECODERS {
            let looks_up = decoder.source.iter().any(|source| source.contains("@binding(7)"));
            assert_eq!(points(decoder.format).is_some(), looks_up, "{}", decoder.format.name());
        }
    }
}
