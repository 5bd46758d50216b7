//! Products with matrices: rows of prompts one way, rows that decode another. A row's bits follow from its kind, not
//! from how many others there are.

use std::sync::Arc;

use candor_ops::Step;
use candor_quant::Format;

use crate::buffer::{Beside, Buf};
use crate::device::Storage;
use crate::format::QUAD;
use crate::kernel::{Inputs, Kernel, MAT_VEC_ROWS, Store, TILE, Tile, rows_per_group};
use crate::record::Dispatch;
use crate::weight::Part;
use crate::{Gpu, Variant, Weight};

/// Workgroups side by side at most; the rest goes to the second dimension.
const GRID: u32 = 32768;

/// Workgroups of tall tiles that are enough: one for each of the largest GPUs' processors.
const TALL_GROUPS: u32 = 132;

/// `out = w @ x`, or `out += w @ x`.
pub(crate) fn matmul(gpu: &mut Gpu, out: &mut Buf, x: &Buf, w: &Weight, store: Store) {
    all(gpu, &mut [(out, w)], x, store);
}

/// Products of the same input, which is rounded once for those that want it rounded. Rows of prompts go one way, those
/// that decode another, however many there are.
pub(crate) fn all(gpu: &mut Gpu, products: &mut [(&mut Buf, &Weight)], x: &Buf, store: Store) {
    let kinds = kinds(x.prefill(), x.decoding);
    let made = Made::new(gpu, x, kinds, products.iter().map(|(_, w)| *w));
    for (out, w) in products {
        out.like(x);
        for &few in kinds {
            let (storage, stride, inputs) = made.of(x, w, gpu.device.variant, few);
            let given = Given { storage, stride, prefill: x.prefill(), decoding: x.decoding, inputs };
            if few { few_inputs(gpu, out, w, store, &given) } else { many_inputs(gpu, out, w, store, &given) }
        }
    }
}

/// For the kinds of rows that there are: whether they are multiplied as few inputs are, by the vectors of a matrix.
pub(crate) fn kinds(prefill: usize, decoding: usize) -> &'static [bool] {
    match (prefill, decoding) {
        (0, 0) => &[],
        (_, 0) => &[false],
        (0, _) => &[true],
        _ => &[false, true],
    }
}

/// Rows that decode as they are multiplied at once: how many, how many of these batches follow each other, and the rows
/// before.
pub(crate) fn batches(decoding: usize) -> impl Iterator<Item = [u32; 3]> {
    let (full, rest) = (decoding / MAT_VEC_ROWS, decoding % MAT_VEC_ROWS);
    let all = [[MAT_VEC_ROWS, full, 0], [rest, 1, full * MAT_VEC_ROWS]];
    all.into_iter().filter(|[rows, count, _]| rows * count > 0).map(|batch| batch.map(|number| number as u32))
}

/// Whether a matrix's inputs are rounded to bytes: few of them, as those that decode, or many.
pub(crate) fn takes_bytes(w: &Weight, variant: Variant, few: bool) -> bool {
    variant.int8_dot && w.format.block_len() > 1 && (few || variant.cooperative.is_none())
}

/// Whether a matrix's inputs are halves before they are multiplied.
fn takes_halves(w: &Weight, variant: Variant, few: bool) -> bool {
    !few && matches!(tile_of(w, variant), Tile::Cooperative { .. })
}

/// How many inputs of a matrix are held.
pub(crate) fn tile_of(w: &Weight, variant: Variant) -> Tile {
    // The range of BF16 is what it is there for, and F32 is for those who want it exact.
    let narrow = !matches!(w.format, Format::F32 | Format::Bf16);
    match variant {
        _ if takes_bytes(w, variant, false) => Tile::Bytes,
        Variant { cooperative: Some(_), .. } if narrow => Tile::Cooperative { tall: false },
        Variant { f16: true, .. } if narrow => Tile::Halves,
        _ => Tile::Floats,
    }
}

/// Inputs as products want them, made once for several matrices.
pub(crate) struct Made {
    rounded: Option<Rounded>,
    /// As halves.
    halves: Option<Arc<Storage>>,
}

impl Made {
    /// What matrices want of rows that are few, as those that decode, or many.
    pub(crate) fn new<'a>(
        gpu: &mut Gpu,
        x: &Buf,
        kinds: &[bool],
        weights: impl Iterator<Item = &'a Weight> + Clone,
    ) -> Made {
        let variant = gpu.device.variant;
        let any = |wants: fn(&Weight, Variant, bool) -> bool| {
            weights.clone().any(|w| kinds.iter().any(|&few| wants(w, variant, few)))
        };
        let (bytes, halves) = (any(takes_bytes), any(takes_halves));
        Made { rounded: bytes.then(|| Rounded::of(gpu, x)), halves: halves.then(|| narrowed(gpu, x)) }
    }

    /// What a matrix multiplies: where it lies, and how far it is from row to row.
    pub(crate) fn of<'a>(&'a self, x: &'a Buf, w: &Weight, variant: Variant, few: bool) -> (&'a Storage, u32, Inputs) {
        match self {
            Made { rounded: Some(rounded), .. } if takes_bytes(w, variant, few) => {
                (&rounded.storage, rounded.stride, Inputs::Bytes)
            }
            Made { halves: Some(halves), .. } if takes_halves(w, variant, few) => (halves, x.quads(), Inputs::Floats),
            _ => (&x.storage, x.quads(), Inputs::Floats),
        }
    }
}

/// Rows as halves.
fn narrowed(gpu: &mut Gpu, x: &Buf) -> Arc<Storage> {
    let storage = gpu.pooled((x.rows * x.stride * 2) as u64);
    gpu.dispatch(&Dispatch {
        kernel: Kernel::Narrow,
        buffers: &[&x.storage, &storage],
        numbers: &[x.quads()],
        grid: [x.quads().div_ceil(64), x.rows as u32, 1],
    });
    storage
}

/// Inputs in blocks of 32 signed bytes with a scale.
pub(crate) struct Rounded {
    pub(crate) storage: Arc<Storage>,
    /// `vec4`s from row to row.
    pub(crate) stride: u32,
}

impl Rounded {
    /// The rows as the kernel that made them has left them, or else by one more.
    pub(crate) fn of(gpu: &mut Gpu, x: &Buf) -> Rounded {
        let stride = x.rounded_stride();
        if let Some(storage) = x.rounded() {
            return Rounded { storage: storage.clone(), stride: stride as u32 };
        }
        let storage = gpu.pooled((x.rows * stride * QUAD) as u64);
        gpu.dispatch(&Dispatch {
            kernel: Kernel::Round,
            buffers: &[&x.storage, &storage],
            numbers: &[x.quads()],
            grid: [x.quads().div_ceil(64), x.rows as u32, 1],
        });
        Rounded { storage, stride: stride as u32 }
    }
}

/// Where the kernel that makes a buffer's rows leaves them rounded, too: if all of them decode, on a device that multiplies
/// bytes. [`Buf::round`] says whether it has.
pub(crate) fn room_beside(gpu: &mut Gpu, out: &mut Buf) -> Option<Arc<Storage>> {
    if !gpu.device.variant.int8_dot || out.rows == 0 || out.decoding < out.rows {
        return None;
    }
    let bytes = (out.rows * out.rounded_stride() * QUAD) as u64;
    let room = out.beside.take().map(|beside| beside.storage).filter(|room| room.buffer.size() >= bytes);
    let storage = room.unwrap_or_else(|| Arc::new(gpu.storage(bytes)));
    out.beside = Some(Beside { storage: storage.clone(), writes: None });
    Some(storage)
}

/// Rows of inputs.
struct Given<'a> {
    storage: &'a Storage,
    stride: u32,
    prefill: usize,
    decoding: usize,
    inputs: Inputs,
}

impl Given<'_> {
    /// Counts the work of some rows where a step has many.
    fn worked(&self, gpu: &mut Gpu, rows: usize, part: &Part, w: &Weight) {
        if self.prefill + self.decoding > MAT_VEC_ROWS {
            gpu.recorder.worked(&gpu.device, rows * part.rows as usize * w.cols);
        }
    }
}

fn few_inputs(gpu: &mut Gpu, out: &Buf, w: &Weight, store: Store, x: &Given<'_>) {
    for part in &w.parts {
        let Gpu { device, recorder, places, .. } = &mut *gpu;
        let (places, which) = places.count(device, recorder, x.prefill);
        let [a, b, c, d, e] = [w.runs, w.stride, w.tails, part.rows, part.first];
        for [rows, count, skipped] in batches(x.decoding) {
            let groups = part.rows.div_ceil(rows_per_group(rows)) * count;
            let dispatch = Dispatch {
                kernel: Kernel::MatVec { format: w.format, rows, inputs: x.inputs, store },
                buffers: &[&part.storage, x.storage, places, &out.storage],
                numbers: &[a, b, c, d, e, x.stride, out.stride as u32, which, skipped, count],
                grid: [groups.min(GRID), groups.div_ceil(GRID), 1],
            };
            recorder.dispatch(device, &dispatch);
        }
        x.worked(gpu, x.decoding, part, w);
    }
}

fn many_inputs(gpu: &mut Gpu, out: &Buf, w: &Weight, store: Store, x: &Given<'_>) {
    for part in &w.parts {
        let Gpu { device, recorder, places, .. } = &mut *gpu;
        let (places, which) = places.count(device, recorder, x.prefill);
        let tile = heightened(tile_of(w, device.variant), device.variant, part.rows, x.prefill as u32);
        let dispatch = Dispatch {
            kernel: Kernel::MatMul { format: w.format, tile, store },
            buffers: &[&part.storage, x.storage, places, &out.storage],
            numbers: &[w.runs, w.stride, w.tails, part.rows, part.first, x.stride, out.stride as u32, which],
            grid: [part.rows.div_ceil(TILE), (x.prefill as u32).div_ceil(tile.rows()), 1],
        };
        recorder.dispatch(device, &dispatch);
        x.worked(gpu, x.prefill, part, w);
    }
}

/// Tall tiles where there are enough of them to keep a large device busy: each weight is unpacked for twice as many inputs. A row's
/// sums are the same in either.
fn heightened(tile: Tile, variant: Variant, rows: u32, inputs: u32) -> Tile {
    let tall = Tile::Cooperative { tall: true };
    let groups = rows.div_ceil(TILE) * inputs.div_ceil(tall.rows());
    match (tile, variant.cooperative) {
        (Tile::Cooperative { .. }, Some(has)) if has.is_tall() && groups >= TALL_GROUPS => tall,
        _ => tile,
    }
}

/// [`matmul`] of the step's output rows, which are brought together first where they are not all rows.
pub(crate) fn matmul_rows(gpu: &mut Gpu, out: &mut Buf, x: &Buf, w: &Weight, step: &Step<'_>) {
    if step.outputs.len() == x.rows {
        return matmul(gpu, out, x, w, Store::Set);
    }
    let rows = step.outputs.len();
    let storage = gpu.pooled((rows * x.stride * 4) as u64);
    let Gpu { device, recorder, places, .. } = gpu;
    let places = places.stage(device, recorder, step);
    let dispatch = Dispatch {
        kernel: Kernel::Gather,
        buffers: &[&x.storage, places, &storage],
        numbers: &[x.quads()],
        grid: [x.quads().div_ceil(64), rows as u32, 1],
    };
    recorder.dispatch(device, &dispatch);
    let prefill = step.outputs.partition_point(|&row| (row as usize) < x.prefill());
    let picked = Buf::of((*storage).clone(), [rows, rows - prefill], x.width);
    matmul(gpu, out, &picked, w, Store::Set);
}
