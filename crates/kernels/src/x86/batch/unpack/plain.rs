//! Formats of plain numbers, and of blocks that become floats.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use candor_quant::Format;

use super::{BLOCK_ROWS, PANEL_LINES, STEP, Step, Unpack};
use crate::x86::avx512::{Blocks, Number, decode};
use crate::x86::batch::Form;
use crate::x86::batch::lines::{load_bytes, load_ps, round_twice, store};

pub struct Bf16;
pub struct F16;
/// Any of them, as floats.
pub struct Wide<N>(PhantomData<N>);

/// Blocks as floats.
pub struct Decoded<D>(PhantomData<D>);

/// 32 numbers of two bytes, zeros after the last.
#[inline]
#[target_feature(enable = "avx512f")]
fn words(columns: &[u8]) -> __m512i {
    if let Some(whole) = columns.first_chunk() {
        return load_bytes(whole);
    }
    let mut padded = [0; 2 * STEP];
    padded[..columns.len()].copy_from_slice(columns);
    load_bytes(&padded)
}

impl Unpack for Bf16 {
    const FORMAT: Format = Format::Bf16;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        for (columns, step) in columns.chunks(2 * STEP).zip(panel) {
            store(&mut step[r], words(columns));
        }
    }
}

impl Unpack for F16 {
    const FORMAT: Format = Format::F16;
    /// 11 significant bits: the second half is exact.
    const FORM: Form = Form::TwoBf16;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        for (columns, steps) in columns.chunks(2 * STEP).zip(panel.as_chunks_mut::<2>().0) {
            let halves = words(columns);
            let low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
            let high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(halves));
            let [large, small] = round_twice(low, high);
            store(&mut steps[0][r], large);
            store(&mut steps[1][r], small);
        }
    }
}

impl<N: Number> Unpack for Wide<N> {
    const FORMAT: Format = N::FORMAT;
    const FORM: Form = Form::F32;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        let (whole, rest) = N::split(columns);
        let (steps, last) = panel.split_at_mut(whole.len());
        for (sixteen, step) in whole.iter().zip(steps) {
            // SAFETY: this function has the features that `widen` asks for.
            store(&mut step[r], _mm512_castps_si512(unsafe { N::widen(sixteen) }));
        }
        if let Some(step) = last.first_mut() {
            let mut sixteen = N::ZEROS;
            N::bytes(&mut sixteen)[..rest.len()].copy_from_slice(rest);
            // SAFETY: as above.
            store(&mut step[r], _mm512_castps_si512(unsafe { N::widen(&sixteen) }));
        }
    }
}

impl<D: Blocks> Unpack for Decoded<D> {
    const FORMAT: Format = D::FORMAT;
    const FORM: Form = Form::F32;

    /// By way of a buffer: the lines of a row are far apart.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
    unsafe fn unpack(columns: &[u8], panel: &mut [Step], r: usize) {
        let mut values = [[0.0; 16]; PANEL_LINES / BLOCK_ROWS];
        decode::<D>(columns, values.as_flattened_mut());
        for (values, step) in values.iter().zip(panel) {
            store(&mut step[r], _mm512_castps_si512(load_ps(values)));
        }
    }
}
