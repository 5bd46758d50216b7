//! By the byte dot products of AVX-512 VNNI: 79 multiplications for 16 rows, 256 columns and an input of Q4_K, 64 of which multiply bytes.

pub mod formats;
pub mod input;
mod pack;
mod panel;
mod tile;

use std::marker::PhantomData;

use candor_quant::Format;

use self::input::Input;
use self::panel::{Panel, Superblock};
use super::inputs::Packed;
use super::mat::{Kind, ROWS};
use crate::{Line, Packing};

/// A format.
pub struct Vnni<S>(PhantomData<S>);

impl<S: Superblock> Kind for Vnni<S> {
    const FORMAT: Format = S::FORMAT;
    const PACKING: &'static Packing = &pack::PACKING;
    const TILE: usize = tile::INPUTS;
    type Bytes = S::Bytes;
    type Panel = Panel;
    const ZERO: Panel = Panel::ZERO;

    fn split(row: &[u8]) -> &[S::Bytes] {
        S::split(row)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn unpack(panel: &mut Panel, rows: [&S::Bytes; ROWS]) {
        // SAFETY: this function has the features that `unpack` asks for.
        unsafe { S::unpack(panel, rows) };
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn tile(panel: &Panel, x: &[Line], sums: &mut [Line]) {
        let x = Input::all(x);
        match sums.len() {
            1 => some::<S, 1>(panel, x, sums),
            2 => some::<S, 2>(panel, x, sums),
            3 => some::<S, 3>(panel, x, sums),
            4 => some::<S, 4>(panel, x, sums),
            5 => some::<S, 5>(panel, x, sums),
            _ => some::<S, { tile::INPUTS }>(panel, x, sums),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn some<S: Superblock, const T: usize>(panel: &Panel, x: &[Input], sums: &mut [Line]) {
    let x = x.first_chunk().expect("an input for each line of sums");
    tile::tile::<S, T>(panel, x, sums.first_chunk_mut().expect("as many as there are"));
}
