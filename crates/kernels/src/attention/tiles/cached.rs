//! The formats of the cache: where the products find their keys and values.

use std::marker::PhantomData;

use candor_quant::Format;

use super::quantized::{Block, Keys, Q4, Q8, Rows};
use super::source::{F16, F32, Floats, Source};
use super::wide::Wide;
use crate::attention::PANEL;

/// A format of the cache.
pub(crate) trait Cached {
    const FORMAT: Format;

    /// Panels of keys: step = dimension, group = panel.
    fn keys<W: Wide>(base: *const u8, panel_bytes: usize) -> impl Source<W>;

    /// Rows of values: step = position, group = 16 dimensions.
    fn rows<W: Wide>(base: *const u8, row_bytes: usize) -> impl Source<W>;
}

macro_rules! floats {
    ($($name:ident)*) => {
        $(impl Cached for $name {
            const FORMAT: Format = Format::$name;

            #[inline(always)]
            fn keys<W: Wide>(base: *const u8, panel_bytes: usize) -> impl Source<W> {
                let k_step = Format::$name.block_bytes() * PANEL;
                Floats { base, k_step, n_step: panel_bytes, number: PhantomData::<$name> }
            }

            #[inline(always)]
            fn rows<W: Wide>(base: *const u8, row_bytes: usize) -> impl Source<W> {
                let n_step = Format::$name.block_bytes() * PANEL;
                Floats { base, k_step: row_bytes, n_step, number: PhantomData::<$name> }
            }
        })*
    };
}

macro_rules! blocks {
    ($($name:ident)*) => {
        $(impl Cached for $name {
            const FORMAT: Format = <$name as Block>::FORMAT;

            #[inline(always)]
            fn keys<W: Wide>(base: *const u8, panel_bytes: usize) -> impl Source<W> {
                Keys { base, panel_bytes, format: PhantomData::<$name> }
            }

            #[inline(always)]
            fn rows<W: Wide>(base: *const u8, row_bytes: usize) -> impl Source<W> {
                Rows { base, row_bytes, format: PhantomData::<$name> }
            }
        })*
    };
}

floats!(F32 F16);
blocks!(Q8 Q4);
