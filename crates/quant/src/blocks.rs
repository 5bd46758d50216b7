//! The formats of blocks as types, for callers that compile decoders and encoders themselves: with instructions that this crate is
//! not compiled for, and into loops of their own.

use crate::Format;
use crate::formats;
use crate::lanes::Lanes;

/// A format whose decoder becomes part of the caller.
pub trait Decode {
    /// The format.
    const FORMAT: Format;

    /// What [`Format::decode`] does, to the bit; whole blocks that either slice has no room for are left out.
    fn decode(bytes: &[u8], out: &mut [f32]);
}

macro_rules! types {
    ($($format:ident $file:ident::$block:ident $name:literal,)*) => {
        $(
            #[doc = $name]
            #[derive(Clone, Copy, Debug)]
            pub enum $format {}

            impl Decode for $format {
                const FORMAT: Format = Format::$format;

                #[inline(always)]
                fn decode(bytes: &[u8], out: &mut [f32]) {
                    // No function that is handed to another: a call through it would not be inlined.
                    for (block, out) in bytes.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
                        formats::apart();
                        formats::$file::$block(block, out);
                    }
                }
            }
        )*
    };
}

types! {
    Q4_0 q4::q4_0 "Q4_0",
    Q4_1 q4::q4_1 "Q4_1",
    Q5_0 q5::q5_0 "Q5_0",
    Q5_1 q5::q5_1 "Q5_1",
    Q8_0 q8::q8_0 "Q8_0",
    Q8_1 q8::q8_1 "Q8_1",
    Q2K q2_k::q2_k "Q2_K",
    Q3K q3_k::q3_k "Q3_K",
    Q4K q4_k::q4_k "Q4_K",
    Q5K q5_k::q5_k "Q5_K",
    Q6K q6_k::q6_k "Q6_K",
    Q8K q8::q8_k "Q8_K",
    Iq2Xxs iq2::iq2_xxs "IQ2_XXS",
    Iq2Xs iq2::iq2_xs "IQ2_XS",
    Iq3Xxs iq3::iq3_xxs "IQ3_XXS",
    Iq1S iq1::iq1_s "IQ1_S",
    Iq4Nl iq4::iq4_nl "IQ4_NL",
    Iq3S iq3::iq3_s "IQ3_S",
    Iq2S iq2::iq2_s "IQ2_S",
    Iq4Xs iq4::iq4_xs "IQ4_XS",
    Iq1M iq1::iq1_m "IQ1_M",
    Tq1_0 tq::tq1_0 "TQ1_0",
    Tq2_0 tq::tq2_0 "TQ2_0",
    Mxfp4 fp4::mxfp4 "MXFP4",
    Nvfp4 fp4::nvfp4 "NVFP4",
    Q1_0 q1::q1_0 "Q1_0",
    Q2_0 q2::q2_0 "Q2_0",
}

/// A format whose encoder becomes part of the caller, with lanes of the caller's: those of vectors make it several times as fast.
pub trait Encode {
    /// What [`Format::encode_by`] does, to the bit; whole blocks that either slice has no room for are left out.
    fn encode<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]);
}

macro_rules! encoders {
    ($($format:ident $file:ident::$encode:ident $(::<$lanes:ident>)?,)*) => {
        $(
            impl Encode for $format {
                #[inline(always)]
                fn encode<V: Lanes>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
                    formats::$file::$encode$(::<$lanes>)?(values, importance, bytes);
                }
            }
        )*
    };
}

encoders! {
    Q8_0 q8::encode_q8_0,
    Q2K q2_k::encode_q2_k::<V>,
    Q3K q3_k::encode_q3_k::<V>,
    Q4K q4_k::encode_q4_k::<V>,
    Q5K q5_k::encode_q5_k::<V>,
    Q6K q6_k::encode_q6_k::<V>,
    Iq2Xxs iq2::encode_iq2_xxs::<V>,
    Iq2Xs iq2::encode_iq2_xs::<V>,
    Iq3Xxs iq3::encode_iq3_xxs::<V>,
    Iq1S iq1::encode_iq1_s::<V>,
    Iq3S iq3::encode_iq3_s::<V>,
    Iq2S iq2::encode_iq2_s::<V>,
    Iq4Xs iq4::encode_iq4_xs::<V>,
    Iq1M iq1::encode_iq1_m::<V>,
    Mxfp4 fp4::encode_mxfp4,
    Nvfp4 fp4::encode_nvfp4,
}
