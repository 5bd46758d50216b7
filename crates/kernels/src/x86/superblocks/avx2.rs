//! By registers of 256 bits: with the byte products of AVX2 or of AVX-VNNI.

pub mod formats;
pub mod input;
mod pack;
pub mod pairs;
mod panel;
mod tile;

use std::marker::PhantomData;

use candor_quant::Format;

use self::input::Input;
use self::pairs::Pairs;
use self::panel::{Panel, Superblock};
use super::Sums;
use super::inputs::Packed;
use super::mat::{Kind, ROWS};
use crate::{Line, Packing};

/// A format by the products of `M`.
pub struct Avx2<M, S>(PhantomData<(M, S)>);

impl<M: Pairs, S: Superblock> Kind for Avx2<M, S> {
    const FORMAT: Format = S::FORMAT;
    const PACKING: &'static Packing = &pack::packing::<M>();
    const TILE: usize = match S::SUMS {
        Sums::Blocks => M::INPUTS,
        Sums::Halves | Sums::CentredHalves => M::INPUTS_OF_HALVES,
    };
    type Bytes = S::Bytes;
    type Panel = Panel;
    const ZERO: Panel = Panel::ZERO;

    fn split(row: &[u8]) -> &[S::Bytes] {
        S::split(row)
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn unpack(panel: &mut Panel, rows: [&S::Bytes; ROWS]) {
        let (first, last) = rows.split_at(ROWS / 2);
        for (side, rows) in [first, last].into_iter().enumerate() {
            // SAFETY: the caller promises what `unpack` asks for.
            unsafe { S::unpack::<M>(panel, side, rows.try_into().expect("half of the rows")) };
        }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn tile(panel: &Panel, x: &[Line], sums: &mut [Line]) {
        let x = Input::all(x);
        match sums.len() {
            1 => some::<M, S, 1>(panel, x, sums),
            2 => some::<M, S, 2>(panel, x, sums),
            3 => some::<M, S, 3>(panel, x, sums),
            5 if const { Self::TILE >= 5 } => some::<M, S, 5>(panel, x, sums),
            6 if const { Self::TILE >= 6 } => some::<M, S, 6>(panel, x, sums),
            _ => some::<M, S, 4>(panel, x, sums),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn some<M: Pairs, S: Superblock, const T: usize>(panel: &Panel, x: &[Input], sums: &mut [Line]) {
    let x = x.first_chunk().expect("an input for each line of sums");
    tile::tile::<M, S, T>(panel, x, sums.first_chunk_mut().expect("as many as there are"));
}
