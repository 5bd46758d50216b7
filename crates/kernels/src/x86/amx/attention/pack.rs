//! Queries, keys and values on their way into tiles, as two halves each.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::array::Each;
use crate::attention::block::{BLOCK, GROUP, PAIR, PAIR_LINES, WEIGHT_LINES};
use crate::attention::tiles::{Cached, Source};
use crate::x86::avx512::Sixteen;
use crate::x86::batch::lines::{round_twice, store};
use crate::x86::batch::pack::step_of;
use crate::{BlockKernels, BlockProducts, Line, PANEL, Queries};

/// What packs a format.
pub fn kernels<C: Cached>(products: &'static BlockProducts) -> BlockKernels {
    BlockKernels {
        pack_keys: |packed, dim, pairs, panels| {
            let panel_bytes = PANEL * C::FORMAT.row_bytes(dim).expect("dimensions are whole blocks");
            let lines = dim.div_ceil(32) * PAIR_LINES;
            assert!(dim > 0 && pairs.end * PAIR <= BLOCK, "{} keys: pairs", C::FORMAT);
            assert_eq!(panels.len(), pairs.len() * 2 * panel_bytes, "{} keys: bytes", C::FORMAT);
            let packed = &mut packed[pairs.start * lines..pairs.end * lines];
            // SAFETY: only AMX's table leads here; there are as many panels as pairs of `packed` have.
            unsafe { keys::<C>(packed, dim, panels.as_ptr(), panel_bytes) }
        },
        pack_values: |packed, width, positions, rows| {
            let row_bytes = C::FORMAT.row_bytes(width).expect("dimensions are whole blocks");
            assert!(width.is_multiple_of(PANEL) && positions.end <= BLOCK, "{} values: shape", C::FORMAT);
            assert_eq!(rows.len(), positions.len() * row_bytes, "{} values: bytes", C::FORMAT);
            assert_eq!(packed.len(), width.div_ceil(32) * WEIGHT_LINES, "{} values: room", C::FORMAT);
            // SAFETY: only AMX's table leads here; there are as many rows as positions, of `width` numbers each.
            unsafe { values::<C>(packed, width, positions, (rows.as_ptr(), row_bytes)) }
        },
        products,
    }
}

pub fn queries(packed: &mut [Line], queries: Queries<'_>) {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    fn compiled(packed: &mut [Line], Queries { dim, values }: Queries<'_>) {
        let steps = dim.div_ceil(32);
        let groups = packed.as_chunks_mut::<PAIR_LINES>().0.chunks_exact_mut(steps);
        for (group, values) in groups.zip(values.chunks(GROUP * dim)) {
            for q in 0..GROUP {
                let query = values.get(q * dim..(q + 1) * dim).unwrap_or_default();
                for (k, step) in group.iter_mut().enumerate() {
                    let some = query.get(k * 32..).unwrap_or_default();
                    let [low, high] = step_of(&some[..some.len().min(32)]);
                    let [large, small] = round_twice(low, high);
                    store(&mut step[q], large);
                    store(&mut step[GROUP + q], small);
                }
            }
        }
    }
    let Queries { dim, values } = queries;
    assert!(dim > 0 && values.len().is_multiple_of(dim), "queries: {} floats of {dim}", values.len());
    let lines = (values.len() / dim).div_ceil(GROUP) * dim.div_ceil(32) * PAIR_LINES;
    assert_eq!(packed.len(), lines, "queries: room");
    // SAFETY: only AMX's table leads here.
    unsafe { compiled(packed, queries) }
}

/// Two rows as pairs: the halves of `a` and `b` in the words of each lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn pairs(a: __m512, b: __m512) -> [__m512i; 2] {
    const ORDER: [i16; 32] = {
        let mut order = [0; 32];
        let mut i = 0;
        while i < 16 {
            (order[2 * i], order[2 * i + 1]) = (i as i16, 16 + i as i16);
            i += 1;
        }
        order
    };
    // SAFETY: `ORDER` is 64 readable bytes.
    let order = unsafe { _mm512_loadu_epi16(ORDER.as_ptr()) };
    round_twice(a, b).each(|half| _mm512_permutexvar_epi16(order, half))
}

/// Line = pair of dimensions, lane = position.
///
/// # Safety
/// The processor has AMX's table; as many panels are readable as whole pairs fit into `packed`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma,f16c")]
unsafe fn keys<C: Cached>(packed: &mut [Line], dim: usize, panels: *const u8, panel_bytes: usize) {
    let source = C::keys::<Sixteen>(panels, panel_bytes);
    let steps = packed.as_chunks_mut::<PAIR_LINES>().0;
    for (pair, steps) in steps.chunks_exact_mut(dim.div_ceil(32)).enumerate() {
        for (k, step) in steps.iter_mut().enumerate() {
            for side in 0..2 {
                let panel = 2 * pair + side;
                // SAFETY: dimension `32 * k` is one of the panel's.
                let scale = unsafe { source.scale(32 * k, panel) };
                for line in 0..PANEL {
                    let e = 32 * k + 2 * line;
                    let [a, b] = [e, e + 1].each(|e| match e < dim {
                        // SAFETY: the panel has this dimension.
                        true => unsafe { source.group(e, panel, scale) }.0,
                        false => _mm512_setzero_ps(),
                    });
                    let [large, small] = pairs(a, b);
                    store(&mut step[side * PANEL + line], large);
                    store(&mut step[(2 + side) * PANEL + line], small);
                }
            }
        }
    }
}

/// Line = two positions, 16 apart as weights have them, lane = dimension.
///
/// # Safety
/// The processor has AMX's table; as many rows of `width` numbers are readable as there are positions.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma,f16c")]
unsafe fn values<C: Cached>(
    packed: &mut [Line],
    width: usize,
    positions: Range<usize>,
    (rows, row_bytes): (*const u8, usize),
) -> bool {
    /// Quiet and signalling NaN, either infinity.
    const NOT_FINITE: i32 = 0x99;
    let source = C::rows::<Sixteen>(rows, row_bytes);
    let mut bad = 0;
    for (d, steps) in packed.as_chunks_mut::<WEIGHT_LINES>().0.iter_mut().enumerate() {
        let steps = steps.as_chunks_mut::<PAIR_LINES>().0;
        for pair in positions.start / PAIR..positions.end.div_ceil(PAIR) {
            for side in 0..2 {
                let group = 2 * d + side;
                for line in 0..PANEL {
                    let p = pair * PAIR + line;
                    let [a, b] = [p, p + PANEL].map(|p| {
                        if !positions.contains(&p) || group * PANEL >= width {
                            return _mm512_setzero_ps();
                        }
                        let row = p - positions.start;
                        // SAFETY: the row is one of those, and has this group.
                        let x = unsafe { source.group(row, group, source.scale(row, group)) }.0;
                        let other = _mm512_fpclass_ps_mask::<NOT_FINITE>(x);
                        bad |= other;
                        _mm512_maskz_mov_ps(!other, x)
                    });
                    let [large, small] = pairs(a, b);
                    store(&mut steps[pair][side * PANEL + line], large);
                    store(&mut steps[pair][(2 + side) * PANEL + line], small);
                }
            }
        }
    }
    bad == 0
}
