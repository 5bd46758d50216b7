//! Tables that round no input: blocks of weights are decoded to f32, row by row or into panels, and multiplied as F32 rows are.
//!
//! The decoders are `candor_quant`'s, compiled for the table's instructions, so that weights have the same bits in all tables.

/// What `$of` is, with `$type` as the type of a format of blocks; `None` for other formats.
macro_rules! by_type {
    ($format:expr, $type:ident => $of:expr) => {
        by_type!($format, $type => $of;
            Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2K Q3K Q4K Q5K Q6K Iq1S Iq1M Iq2Xxs Iq2Xs Iq2S Iq3Xxs Iq3S Iq4Nl Iq4Xs Tq1_0 Tq2_0 Mxfp4
            Nvfp4)
    };
    ($format:expr, $type:ident => $of:expr; $($name:ident)*) => {
        match $format {
            $(candor_quant::Format::$name => {
                type $type = candor_quant::blocks::$name;
                Some($of)
            })*
            _ => None,
        }
    };
}

pub(crate) use by_type;
