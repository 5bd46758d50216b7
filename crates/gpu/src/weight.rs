//! Weights on the device: uploaded in small pieces, split by rows where one buffer cannot hold them.

use std::sync::Arc;

use candor_ops::{Error, Tensor};
use candor_quant::Format;

use crate::Dequant;
use crate::device::{Device, Spares, Storage};
use crate::format::{Decoder, QUAD, RUN, decoder};

/// A matrix or vector on the device.
#[derive(Debug)]
pub struct Weight {
    pub(crate) format: Format,
    pub(crate) cols: usize,
    /// Runs of 16 in a row.
    pub(crate) runs: u32,
    /// `vec4`s from row to row.
    pub(crate) stride: u32,
    /// `vec4`s from the beginning of a row to its blocks' tails.
    pub(crate) tails: u32,
    pub(crate) parts: Vec<Part>,
    /// Where its buffers go.
    spares: Option<Arc<Spares>>,
}

impl Drop for Weight {
    fn drop(&mut self) {
        if let Some(spares) = &self.spares {
            let free = self.parts.drain(..).map(|part| part.storage).filter(|storage| Arc::strong_count(storage) == 1);
            spares.add(free);
        }
    }
}

/// Some consecutive rows.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) storage: Arc<Storage>,
    pub(crate) first: u32,
    pub(crate) rows: u32,
}

/// Bytes on their way up at once.
const CHUNK: usize = 4 << 20;

/// Bytes that may wait in the driver's staging memory before they are sent off.
const WAITING: usize = 64 << 20;

impl Weight {
    /// The numbers of a vector, which are always floats.
    pub(crate) fn vector(&self) -> &Storage {
        &self.parts[0].storage
    }

    /// Takes the buffers of other weights where `spares` has fitting ones, and leaves its own there. Says how many it made, too.
    pub(crate) fn upload(
        device: &Device,
        tensor: &Tensor,
        spares: Option<&Arc<Spares>>,
    ) -> Result<(Weight, u64), Error> {
        tensor.check()?;
        let (source, decoder) = plan(device, tensor)?;
        device.book(decoder.format).map_err(|what| failed(device, tensor, what))?;
        let stride = decoder.stride(tensor.cols);
        let row_bytes = stride * QUAD;
        let part_rows = (device.part_bytes / row_bytes.max(1) as u64) as usize;
        if part_rows == 0 {
            return Err(failed(device, tensor, format!("a row of {row_bytes} bytes exceeds the limit of a buffer")));
        }
        let mut parts = Vec::new();
        let (mut waiting, mut made) = (0, 0);
        let mut scratch = Vec::new();
        for first in (0..tensor.rows).step_by(part_rows) {
            let rows = part_rows.min(tensor.rows - first);
            let bytes = (rows * row_bytes) as u64;
            let storage = match spares.and_then(|spares| spares.take(bytes)) {
                Some(spare) => spare,
                None => {
                    made += 1;
                    Arc::new(device.storage(bytes).map_err(|what| failed(device, tensor, what))?)
                }
            };
            let step = (CHUNK / row_bytes.max(1)).max(1);
            for begin in (0..rows).step_by(step) {
                let count = step.min(rows - begin);
                let bytes = source.rows(decoder, tensor, first + begin..first + begin + count, &mut scratch);
                device.queue.write_buffer(&storage.buffer, (begin * row_bytes) as u64, bytes);
                waiting += bytes.len();
                if waiting >= WAITING {
                    device.queue.submit([]);
                    device.wait();
                    waiting = 0;
                }
            }
            parts.push(Part { storage, first: first as u32, rows: rows as u32 });
        }
        if let Some(fault) = device.fault.get() {
            return Err(failed(device, tensor, fault));
        }
        let weight = Weight {
            format: decoder.format,
            cols: tensor.cols,
            runs: tensor.cols.div_ceil(RUN) as u32,
            stride: stride as u32,
            tails: decoder.tails(tensor.cols) as u32,
            parts,
            spares: spares.cloned(),
        };
        Ok((weight, made))
    }
}

/// What a tensor's rows become on their way up.
enum Source {
    /// The file's bytes, perhaps in another order.
    Bytes,
    /// Numbers decoded to floats; vectors always are.
    F32,
    /// Numbers decoded to halves.
    F16,
}

fn plan(device: &Device, tensor: &Tensor) -> Result<(Source, &'static Decoder), Error> {
    let (source, format) = match decoder(tensor.format) {
        _ if tensor.rows == 1 => (Source::F32, Format::F32),
        Some(_) => (Source::Bytes, tensor.format),
        None if device.dequant == Dequant::ToF16 => (Source::F16, Format::F16),
        None => (Source::Bytes, tensor.format),
    };
    let refused = || Error::Format { tensor: tensor.name.clone(), format: tensor.format, backend: "the gpu" };
    Ok((source, decoder(format).ok_or_else(refused)?))
}

fn failed(device: &Device, tensor: &Tensor, what: String) -> Error {
    Error::Device { device: format!("gpu {}", device.name), what: format!("tensor {}: {what}", tensor.name) }
}

impl Source {
    /// Consecutive rows as they lie on the device.
    fn rows<'a>(
        &self,
        decoder: &Decoder,
        tensor: &'a Tensor,
        rows: std::ops::Range<usize>,
        scratch: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let stride = tensor.bytes.len() / tensor.rows;
        if matches!(self, Source::Bytes) && decoder.is_verbatim(tensor.cols) {
            return &tensor.bytes[rows.start * stride..rows.end * stride];
        }
        let row_bytes = decoder.stride(tensor.cols) * QUAD;
        scratch.clear();
        scratch.resize(rows.len() * row_bytes, 0);
        let mut values = vec![0.0; if matches!(self, Source::Bytes) { 0 } else { tensor.cols }];
        for (row, out) in rows.zip(scratch.chunks_exact_mut(row_bytes)) {
            let bytes = tensor.row(row);
            match self {
                Source::Bytes => decoder.arrange(bytes, tensor.cols, out),
                Source::F32 => {
                    tensor.format.decode(bytes, &mut values);
                    let words = out.as_chunks_mut::<4>().0;
                    words.iter_mut().zip(&values).for_each(|(out, value)| *out = value.to_le_bytes());
                }
                Source::F16 => {
                    tensor.format.decode(bytes, &mut values);
                    let room = &mut out[..tensor.cols * 2];
                    Format::F16.encode_direct(&values, room).expect("halves have an encoder");
                }
            }
        }
        scratch
    }
}
