//! Mixtures of experts: choices, products with the matrices of the chosen, and what becomes of their rows.
//!
//! Choices of rows that decode are multiplied one by one. Those of prompts are sorted by experts on the device, so that
//! a matrix is read once for up to 64 of them; how many tiles that makes is not known here, and those that are too many
//! end at once.

use candor_ops::{Gate, Router};

use crate::buffer::{Buf, Snapshot};
use crate::device::Storage;
use crate::kernel::{EXPERTS, ExpertRows, GateKind, Inputs, Kernel, MAT_VEC_ROWS, Route, TILE, rows_per_group};
use crate::product::{Rounded, kinds, takes_bytes, tile_of};
use crate::record::Dispatch;
use crate::{Gpu, Weight};

/// Choices in a step at most: as many workgroups side by side as every device has.
const CHOICES: usize = 65535;

/// Which experts each row goes to.
#[derive(Debug)]
pub struct Routes {
    /// `[rows][used]` of an expert and its weight.
    choices: Storage,
    used: usize,
    /// Rows that there is room for.
    capacity: usize,
    /// Rows in flight.
    rows: usize,
    /// How many of them are of prompts.
    prefill: usize,
    /// Experts that there are.
    experts: usize,
    /// The choices by experts; there from the first time on that they are needed.
    sorted: Option<Storage>,
}

impl Routes {
    fn choices(&self) -> usize {
        self.rows * self.used
    }

    /// Tiles of `rows` rows at most.
    fn tiles(&self, rows: usize) -> usize {
        let choices = rows * self.used;
        choices / TILE as usize + self.experts.min(choices)
    }

    /// Where the sorted choices begin.
    fn order(&self) -> usize {
        4 + 4 * self.tiles(self.capacity)
    }
}

pub(crate) fn routes(gpu: &mut Gpu, rows: usize, used: usize) -> Routes {
    let choices = gpu.storage((rows * used * 8) as u64);
    Routes { choices, used, capacity: rows, rows: 0, prefill: 0, experts: 1, sorted: None }
}

pub(crate) fn route(gpu: &mut Gpu, routes: &mut Routes, logits: &Buf, bias: Option<&Weight>, router: Router) {
    let Router { experts, used, gate, groups, normalized, scale } = router;
    if experts > EXPERTS {
        return gpu.refuse(format!("route: expected at most {EXPERTS} experts, got {experts}"));
    }
    let choices = logits.rows * used;
    if choices > CHOICES {
        return gpu
            .refuse(format!("route: expected at most {CHOICES} choices in a step, got {choices} (fewer tokens)"));
    }
    (routes.rows, routes.prefill, routes.experts) = (logits.rows, logits.prefill(), experts);
    let (gate, share) = match gate {
        Gate::Softmax => (GateKind::Softmax, 0.0),
        Gate::SoftmaxOfChosen => (GateKind::SoftmaxOfChosen, 0.0),
        Gate::Sigmoid => (GateKind::Sigmoid, 0.0),
        Gate::SparseMixer(share) => (GateKind::SparseMixer, share),
    };
    // The last gate asks for neither.
    let mixes = gate == GateKind::SparseMixer;
    let (bias, groups) = if mixes { (None, (1, 1)) } else { (bias, groups) };
    let kernel = Route { gate, experts: experts as u32, used: used as u32, biased: bias.is_some() };
    let [stride, all, some] = [logits.stride, groups.0, groups.1].map(|number| number as u32);
    let buffers = [&logits.storage, &routes.choices, bias.map_or(&logits.storage, Weight::vector)];
    gpu.dispatch(&Dispatch {
        kernel: Kernel::Route(kernel),
        buffers: &buffers[..if bias.is_some() { 3 } else { 2 }],
        numbers: &[stride, all, some, u32::from(normalized), scale.to_bits(), share.to_bits()],
        grid: [logits.rows as u32, 1, 1],
    });
    if routes.prefill > 0 {
        sort(gpu, routes);
    }
}

fn sort(gpu: &mut Gpu, routes: &mut Routes) {
    let order = routes.order();
    let bytes = ((order + routes.capacity * routes.used) * 4) as u64;
    if routes.sorted.as_ref().is_none_or(|sorted| sorted.buffer.size() < bytes) {
        routes.sorted = Some(gpu.storage(bytes));
    }
    let Some(sorted) = &routes.sorted else { return };
    let Gpu { device, recorder, places, .. } = gpu;
    let (places, which) = places.count(device, recorder, routes.prefill);
    let dispatch = Dispatch {
        kernel: Kernel::Group { experts: routes.experts as u32 },
        buffers: &[&routes.choices, places, sorted],
        numbers: &[routes.used as u32, which, order as u32],
        grid: [1, 1, 1],
    };
    recorder.dispatch(device, &dispatch);
}

/// A copy of what was chosen: not by a shader, whose floats may lose small bits.
pub(crate) fn choices(gpu: &mut Gpu, routes: &Routes) -> Snapshot {
    let copy = Snapshot::new(gpu.pooled((routes.choices() * 8) as u64), routes.choices() * 2);
    if copy.len > 0 {
        gpu.recorder.copy(&gpu.device, &routes.choices, &copy.storage, copy.bytes());
    }
    copy
}

pub(crate) fn chosen(gpu: &mut Gpu, choices: &Snapshot, out: &mut Vec<(u32, f32)>) {
    out.clear();
    gpu.recorder.read(&gpu.device, choices, &mut |read| {
        let pairs = bytemuck::cast_slice::<u8, [u32; 2]>(read);
        out.extend(pairs.iter().map(|&[expert, weight]| (expert, f32::from_bits(weight))));
    });
}

/// Products of the same input, which is rounded once for those that want it rounded.
pub(crate) fn products(gpu: &mut Gpu, products: &mut [(&mut Buf, &Weight)], x: &Buf, routes: &Routes) {
    let variant = gpu.device.variant;
    let kinds = kinds(routes.prefill, routes.rows - routes.prefill);
    let rounds = products.iter().any(|(_, w)| kinds.iter().any(|&few| takes_bytes(w, variant, few)));
    let rounded = rounds.then(|| Rounded::of(gpu, x));
    for (out, w) in products {
        out.rows = routes.choices();
        out.decoding = (routes.rows - routes.prefill) * routes.used;
        for &few in kinds {
            let given = match &rounded {
                Some(rounded) if takes_bytes(w, variant, few) => (&*rounded.storage, rounded.stride),
                _ => (&x.storage, x.quads()),
            };
            // Inputs are a row for each choice, or for all choices of a token.
            let shared = if x.rows == routes.choices() { 1 } else { routes.used };
            if few {
                one_by_one(gpu, out, w, given, shared, routes)
            } else {
                sorted(gpu, out, w, given, shared, routes)
            }
        }
    }
}

/// The choices of rows that decode.
fn one_by_one(gpu: &mut Gpu, out: &Buf, w: &Weight, (x, stride): (&Storage, u32), shared: usize, routes: &Routes) {
    let [out_stride, outputs, shared, used] = [out.stride, out.width, shared, routes.used].map(|number| number as u32);
    let choices = out.decoding;
    let inputs = if takes_bytes(w, gpu.device.variant, true) { Inputs::Bytes } else { Inputs::Floats };
    for part in &w.parts {
        let Gpu { device, recorder, places, .. } = &mut *gpu;
        let (places, which) = places.count(device, recorder, routes.prefill);
        let [a, b, c, d, e] = [w.runs, w.stride, w.tails, part.rows, part.first];
        let dispatch = Dispatch {
            kernel: Kernel::ExpertVec { format: w.format, inputs },
            buffers: &[&part.storage, x, &routes.choices, places, &out.storage],
            numbers: &[a, b, c, d, e, stride, out_stride, outputs, shared, which, used],
            grid: [outputs.div_ceil(rows_per_group(1)), choices as u32, 1],
        };
        recorder.dispatch(device, &dispatch);
        if routes.rows > MAT_VEC_ROWS {
            recorder.worked(device, choices * outputs as usize * w.cols / w.parts.len());
        }
    }
}

/// The choices of prompts' rows, by their experts.
fn sorted(gpu: &mut Gpu, out: &Buf, w: &Weight, (x, stride): (&Storage, u32), shared: usize, routes: &Routes) {
    let [out_stride, outputs, shared] = [out.stride, out.width, shared].map(|number| number as u32);
    let Some(sorted) = &routes.sorted else { return };
    let variant = gpu.device.variant;
    for part in &w.parts {
        let [a, b, c, d, e] = [w.runs, w.stride, w.tails, part.rows, part.first];
        gpu.dispatch(&Dispatch {
            kernel: Kernel::ExpertMul { format: w.format, tile: tile_of(w, variant) },
            buffers: &[&part.storage, x, sorted, &out.storage],
            numbers: &[a, b, c, d, e, stride, out_stride, outputs, shared, routes.order() as u32],
            grid: [outputs.div_ceil(TILE), routes.tiles(routes.prefill) as u32, 1],
        });
        if routes.rows > MAT_VEC_ROWS {
            // As if every expert had as many rows.
            let products = routes.prefill * routes.used * part.rows as usize / routes.experts.max(1);
            gpu.recorder.worked(&gpu.device, products * w.cols);
        }
    }
}

pub(crate) fn add_bias(gpu: &mut Gpu, x: &Buf, bias: &Weight, routes: &Routes) {
    let bias = gpu.floats(bias);
    let buffers = [&x.storage, &routes.choices, &*bias.storage];
    rows(gpu, ExpertRows::AddBias, x, &buffers, bias.stride / 4);
}

pub(crate) fn scale(gpu: &mut Gpu, x: &Buf, routes: &Routes) {
    rows(gpu, ExpertRows::Scale, x, &[&x.storage, &routes.choices], 0);
}

fn rows(gpu: &mut Gpu, change: ExpertRows, x: &Buf, buffers: &[&Storage], bias_stride: u32) {
    gpu.dispatch(&Dispatch {
        kernel: Kernel::ExpertRows(change),
        buffers,
        numbers: &[x.quads(), bias_stride],
        grid: [x.quads().div_ceil(64), x.rows as u32, 1],
    });
}

pub(crate) fn sum(gpu: &mut Gpu, out: &mut Buf, x: &Buf, routes: &Routes) {
    (out.rows, out.decoding) = (routes.rows, routes.rows - routes.prefill);
    gpu.dispatch(&Dispatch {
        kernel: Kernel::SumExperts,
        buffers: &[&x.storage, &out.storage],
        numbers: &[x.quads(), routes.used as u32],
        grid: [x.quads().div_ceil(64), out.rows as u32, 1],
    });
}
