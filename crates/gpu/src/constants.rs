//! Small tables that follow from a layer's numbers, and weights as floats: what shaders look up.

use std::sync::Arc;

use candor_ops::{alibi_slope, relative_bucket};
use candor_quant::Format;

use crate::device::Storage;
use crate::format::{QUAD, RUN};
use crate::kernel::Kernel;
use crate::record::Dispatch;
use crate::{Gpu, Weight};

/// A table that is made once for all layers of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Constant {
    /// ALiBi's slopes of heads.
    Slopes { heads: usize, max: u32 },
    /// The bucket of each distance from `-most` to `most`.
    Buckets { both: bool, buckets: usize, most: usize },
}

impl Constant {
    fn words(self) -> Vec<u32> {
        match self {
            Constant::Slopes { heads, max } => {
                let slope = |head| alibi_slope(head, heads, f32::from_bits(max)) as f32;
                (0..heads).map(|head| slope(head).to_bits()).collect()
            }
            Constant::Buckets { both, buckets, most } => {
                let most = most as i64;
                (-most..=most).map(|distance| relative_bucket(distance, both, buckets, most as usize) as u32).collect()
            }
        }
    }
}

/// A matrix as floats.
#[derive(Debug)]
pub(crate) struct Floats {
    pub(crate) storage: Arc<Storage>,
    /// Elements from row to row.
    pub(crate) stride: u32,
}

impl Gpu {
    /// The table, made when it is first asked for.
    pub(crate) fn constant(&mut self, constant: Constant) -> Storage {
        if let Some((_, storage)) = self.constants.iter().find(|(known, _)| *known == constant) {
            return storage.clone();
        }
        let words = constant.words();
        let storage = self.storage((words.len() * 4) as u64);
        self.device.queue.write_buffer(&storage.buffer, 0, bytemuck::cast_slice(&words));
        self.constants.push((constant, storage.clone()));
        storage
    }

    /// A small matrix as floats, which it usually is already.
    pub(crate) fn floats(&mut self, w: &Weight) -> Floats {
        let stride = w.runs * RUN as u32;
        if let (Format::F32, [part]) = (w.format, &w.parts[..]) {
            return Floats { storage: part.storage.clone(), stride };
        }
        let rows: u32 = w.parts.iter().map(|part| part.rows).sum();
        let storage = self.pooled(u64::from(rows) * u64::from(w.runs) * 4 * QUAD as u64);
        for part in &w.parts {
            self.dispatch(&Dispatch {
                kernel: Kernel::Unpack(w.format),
                buffers: &[&part.storage, &storage],
                numbers: &[w.runs, w.stride, w.tails, part.first],
                grid: [w.runs.div_ceil(64), part.rows, 1],
            });
        }
        Floats { storage, stride }
    }
}
