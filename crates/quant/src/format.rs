//! The table of formats: one row per type of tensor that ggml stores.
//!
//! The last word of a row names the codec (a constant in `formats/`) that knows the bytes of a block.

use crate::formats::{self, Decode, Encode, Words};

macro_rules! formats {
    ($(
        $variant:ident $name:literal $id:literal [$len:literal; $bytes:literal] $file:ident::$codec:ident $doc:literal,
    )*) => {
        /// A tensor element format of a GGUF file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Format { $(#[doc = $doc] $variant,)* }

        impl Format {
            /// Every format, in the order of the ggml ids.
            pub const ALL: &[Format] = &[$(Format::$variant,)*];

            /// ggml's name: `Q4_K`, `F16`.
            pub const fn name(self) -> &'static str { match self { $(Format::$variant => $name,)* } }

            /// The id that GGUF tensor records carry.
            pub const fn ggml_id(self) -> u32 { match self { $(Format::$variant => $id,)* } }

            /// Elements per block; 1 for plain numbers.
            pub const fn block_len(self) -> usize { match self { $(Format::$variant => $len,)* } }

            /// Bytes per block.
            pub const fn block_bytes(self) -> usize { match self { $(Format::$variant => $bytes,)* } }

            /// The format with this ggml id, if it is one that can be decoded.
            pub const fn from_ggml_id(id: u32) -> Option<Format> {
                match id { $($id => Some(Format::$variant),)* _ => None }
            }

            pub(crate) const fn decoder(self) -> Decode {
                match self { $(Format::$variant => formats::$file::$codec.decode,)* }
            }

            /// A table of its own: a program that asks for no encoder has none in it.
            pub(crate) const fn encoder(self) -> Option<Encode> {
                match self { $(Format::$variant => formats::$file::$codec.encode,)* }
            }

            pub(crate) const fn words(self) -> &'static [Words] {
                match self { $(Format::$variant => formats::$file::$codec.words,)* }
            }
        }
    };
}

formats! {
    F32 "F32" 0 [1; 4] plain::F32 "32-bit float",
    F16 "F16" 1 [1; 2] plain::F16 "IEEE half-precision float",
    Q4_0 "Q4_0" 2 [32; 18] q4::Q4_0 "4 bits, scale per 32",
    Q4_1 "Q4_1" 3 [32; 20] q4::Q4_1 "4 bits, scale and minimum per 32",
    Q5_0 "Q5_0" 6 [32; 22] q5::Q5_0 "5 bits, scale per 32",
    Q5_1 "Q5_1" 7 [32; 24] q5::Q5_1 "5 bits, scale and minimum per 32",
    Q8_0 "Q8_0" 8 [32; 34] q8::Q8_0 "8 bits, scale per 32",
    Q8_1 "Q8_1" 9 [32; 36] q8::Q8_1 "8 bits, scale and sum per 32",
    Q2K "Q2_K" 10 [256; 84] q2_k::Q2_K "2 bits, 4-bit scales and minima per 16",
    Q3K "Q3_K" 11 [256; 110] q3_k::Q3_K "3 bits, 6-bit scales per 16",
    Q4K "Q4_K" 12 [256; 144] q4_k::Q4_K "4 bits, 6-bit scales and minima per 32",
    Q5K "Q5_K" 13 [256; 176] q5_k::Q5_K "5 bits, 6-bit scales and minima per 32",
    Q6K "Q6_K" 14 [256; 210] q6_k::Q6_K "6 bits, 8-bit scales per 16",
    Q8K "Q8_K" 15 [256; 292] q8::Q8_K "8 bits, f32 scale per 256, sums per 16",
    Iq2Xxs "IQ2_XXS" 16 [256; 66] iq2::IQ2_XXS "2.06 bits, codebook of 256 points in 8 dimensions",
    Iq2Xs "IQ2_XS" 17 [256; 74] iq2::IQ2_XS "2.31 bits, codebook of 512 points in 8 dimensions",
    Iq3Xxs "IQ3_XXS" 18 [256; 98] iq3::IQ3_XXS "3.06 bits, codebook of 256 points in 4 dimensions",
    Iq1S "IQ1_S" 19 [256; 50] iq1::IQ1_S "1.56 bits, codebook of 2048 points in 8 dimensions",
    Iq4Nl "IQ4_NL" 20 [32; 18] iq4::IQ4_NL "4 bits into a table of 16 values, scale per 32",
    Iq3S "IQ3_S" 21 [256; 110] iq3::IQ3_S "3.44 bits, codebook of 512 points in 4 dimensions",
    Iq2S "IQ2_S" 22 [256; 82] iq2::IQ2_S "2.56 bits, codebook of 1024 points in 8 dimensions",
    Iq4Xs "IQ4_XS" 23 [256; 136] iq4::IQ4_XS "4.25 bits into a table of 16 values, 6-bit scales per 32",
    I8 "I8" 24 [1; 1] plain::I8 "8-bit integer",
    I16 "I16" 25 [1; 2] plain::I16 "16-bit integer",
    I32 "I32" 26 [1; 4] plain::I32 "32-bit integer",
    I64 "I64" 27 [1; 8] plain::I64 "64-bit integer",
    F64 "F64" 28 [1; 8] plain::F64 "64-bit float",
    Iq1M "IQ1_M" 29 [256; 56] iq1::IQ1_M "1.75 bits, codebook of 2048 points in 8 dimensions",
    Bf16 "BF16" 30 [1; 2] plain::BF16 "bfloat16",
    Tq1_0 "TQ1_0" 34 [256; 54] tq::TQ1_0 "ternary, 5 digits per byte, scale per 256",
    Tq2_0 "TQ2_0" 35 [256; 66] tq::TQ2_0 "ternary, 2 bits, scale per 256",
    Mxfp4 "MXFP4" 39 [32; 17] fp4::MXFP4 "4-bit float, power-of-two scale per 32",
    Nvfp4 "NVFP4" 40 [64; 36] fp4::NVFP4 "4-bit float, 8-bit float scale per 16",
    Q1_0 "Q1_0" 41 [128; 18] q1::Q1_0 "signs, scale per 128",
    Q2_0 "Q2_0" 42 [64; 18] q2::Q2_0 "2 bits, scale per 64",
}

impl Format {
    /// ggml's name of an id, also of those that were removed (`Q4_2`).
    pub const fn ggml_name(id: u32) -> Option<&'static str> {
        match Format::from_ggml_id(id) {
            Some(format) => Some(format.name()),
            None => match id {
                4 => Some("Q4_2"),
                5 => Some("Q4_3"),
                31 => Some("Q4_0_4_4"),
                32 => Some("Q4_0_4_8"),
                33 => Some("Q4_0_8_8"),
                36 => Some("IQ4_NL_4_4"),
                37 => Some("IQ4_NL_4_8"),
                38 => Some("IQ4_NL_8_8"),
                _ => None,
            },
        }
    }

    /// Bytes of a row of `elements`; `None` when it is no whole number of blocks or overflows.
    pub const fn row_bytes(self, elements: usize) -> Option<usize> {
        if !elements.is_multiple_of(self.block_len()) {
            return None;
        }
        (elements / self.block_len()).checked_mul(self.block_bytes())
    }
}
