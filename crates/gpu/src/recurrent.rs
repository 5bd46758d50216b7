//! Short convolutions and linear recurrences, whose states lie beside a layer's keys and values.

use candor_ops::{Decay, Recurrence, Step};

use crate::buffer::Buf;
use crate::cache::Cache;
use crate::kernel::{Fading, Kernel, Recur};
use crate::record::Dispatch;
use crate::{Gpu, Weight};

pub(crate) fn conv(
    gpu: &mut Gpu,
    out: &mut Buf,
    kv: &Cache,
    place: (usize, usize),
    x: &Buf,
    w: &Weight,
    step: &Step<'_>,
) {
    out.like(x);
    let taps = w.cols;
    let w = gpu.floats(w);
    let state = kv.state(place);
    let Gpu { device, recorder, places, .. } = gpu;
    let places = places.stage(device, recorder, step);
    let numbers = [x.width, taps, x.stride, out.stride, w.stride as usize].map(|number| number as u32);
    let grid = [numbers[0].div_ceil(64), x.rows as u32, 1];
    let buffers = [&x.storage, &*w.storage, state, places, &out.storage];
    recorder.dispatch(device, &Dispatch { kernel: Kernel::Conv, buffers: &buffers, numbers: &numbers, grid });
    if taps > 1 {
        let buffers = [&x.storage, state, places];
        recorder.dispatch(device, &Dispatch { kernel: Kernel::Keep, buffers: &buffers, numbers: &numbers, grid });
    }
}

pub(crate) fn recur(
    gpu: &mut Gpu,
    out: &mut Buf,
    kv: &Cache,
    place: (usize, usize),
    inputs: Recurrence<'_, Weight, Buf>,
    step: &Step<'_>,
) {
    let Recurrence { heads, key_heads, key_dim, value_dim, q, k, v, decay, erase, bonus } = inputs;
    out.like(v);
    let (fading, fade, rate) = match decay {
        Decay::Keys(fade) => (Fading::Keys, fade, None),
        Decay::Heads(fade) => (Fading::Heads, fade, None),
        Decay::Rates { time, rate } => (Fading::Rates, time, Some(rate)),
    };
    let kernel = Recur { keys: key_dim as u32, fading, erase: erase.is_some(), bonus: bonus.is_some() };
    let cols = [rate, bonus].map(|w| w.map_or(1, |w| w.cols as u32));
    let [rate, bonus] = [rate, bonus].map(|w| w.map(|w| gpu.floats(w)));
    let strides = [&rate, &bonus].map(|w| w.as_ref().map_or(0, |w| w.stride));
    // What is not erased is nothing of the queries.
    let some = [Some(q), Some(k), Some(fade), erase.map(|(a, _)| a), erase.map(|(_, b)| b)];
    let widths = some.map(|x| x.map_or(0, |x| x.width as u32));
    let all = some.map(|x| x.unwrap_or(q));
    let ends = widths.iter().scan(0, |end, width| {
        *end += width;
        Some(*end)
    });
    let mut starts = [0; 6];
    starts[1..].iter_mut().zip(ends).for_each(|(start, end)| *start = end);
    let columns = starts[5];
    let joined = kernel.is_joined().then(|| {
        let joined = gpu.pooled((v.rows * columns as usize * 4) as u64);
        let [a, b, c, d, e] = widths;
        let [f, g, h, i, j] = all.map(|x| x.stride as u32);
        let [q, k, fade, erase, back] = all.map(|x| &x.storage);
        gpu.dispatch(&Dispatch {
            kernel: Kernel::Join,
            buffers: &[q, k, fade, erase, back, &joined],
            numbers: &[a, b, c, d, e, f, g, h, i, j, columns],
            grid: [columns.div_ceil(64), v.rows as u32, 1],
        });
        joined
    });
    let state = kv.state(place);
    let Gpu { device, recorder, places, .. } = gpu;
    places.stage(device, recorder, step);
    let sequences = places.sequences();
    let places = places.stage(device, recorder, step);
    let mut buffers = [&v.storage, state, places, &out.storage, &q.storage, &k.storage, &fade.storage, &v.storage];
    let mut count = 7;
    if let Some(joined) = &joined {
        (buffers[4], count) = (joined, 5);
    }
    for w in [&rate, &bonus].into_iter().flatten() {
        buffers[count] = &w.storage;
        count += 1;
    }
    let (key_stride, fade_stride) = match joined {
        Some(_) => (columns, columns),
        None => (q.stride as u32, fade.stride as u32),
    };
    let [group, value_dim, all] = [heads / key_heads, value_dim, heads * value_dim].map(|number| number as u32);
    let [v_stride, out_stride] = [v.stride, out.stride].map(|number| number as u32);
    let [_, k_at, fade_at, a_at, b_at, _] = starts;
    let dispatch = Dispatch {
        kernel: Kernel::Recur(kernel),
        buffers: &buffers[..count],
        numbers: &[
            group,
            value_dim,
            all,
            v_stride,
            out_stride,
            key_stride,
            fade_stride,
            k_at,
            fade_at,
            a_at,
            b_at,
            cols[0],
            strides[0],
            cols[1],
            strides[1],
        ],
        grid: [all.div_ceil(kernel.columns()), if v.rows == 0 { 0 } else { sequences }, 1],
    };
    recorder.dispatch(device, &dispatch);
}
