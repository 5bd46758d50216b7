//! The kinds of files: what llama-quantize calls its types.

use candor_quant::Format;

macro_rules! file_types {
    ($($variant:ident $name:literal $id:literal $main:ident,)*) => {
        /// A kind of file, under llama-quantize's name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the names are llama.cpp's")]
        pub enum FileType { $($variant,)* }

        impl FileType {
            /// Every kind, by size and family as llama-quantize lists them.
            pub const ALL: &[FileType] = &[$(FileType::$variant,)*];

            /// llama-quantize's name: `Q4_K_M`.
            pub const fn name(self) -> &'static str { match self { $(FileType::$variant => $name,)* } }

            /// llama.cpp's number of it, the value of `general.file_type`.
            pub const fn id(self) -> u32 { match self { $(FileType::$variant => $id,)* } }

            /// The format of most matrices.
            pub const fn main(self) -> Format { match self { $(FileType::$variant => Format::$main,)* } }
        }
    };
}

file_types! {
    Q1_0 "Q1_0" 40 Q1_0,
    Q2_0 "Q2_0" 41 Q2_0,
    Q4_0 "Q4_0" 2 Q4_0,
    Q4_1 "Q4_1" 3 Q4_1,
    Mxfp4Moe "MXFP4_MOE" 38 Mxfp4,
    Q5_0 "Q5_0" 8 Q5_0,
    Q5_1 "Q5_1" 9 Q5_1,
    Iq2Xxs "IQ2_XXS" 19 Iq2Xxs,
    Iq2Xs "IQ2_XS" 20 Iq2Xs,
    Iq2S "IQ2_S" 28 Iq2Xs,
    Iq2M "IQ2_M" 29 Iq2S,
    Iq1S "IQ1_S" 24 Iq1S,
    Iq1M "IQ1_M" 31 Iq1M,
    Tq1_0 "TQ1_0" 36 Tq1_0,
    Tq2_0 "TQ2_0" 37 Tq2_0,
    Q2K "Q2_K" 10 Q2K,
    Q2KS "Q2_K_S" 21 Q2K,
    Iq3Xxs "IQ3_XXS" 23 Iq3Xxs,
    Iq3S "IQ3_S" 26 Iq3S,
    Iq3M "IQ3_M" 27 Iq3S,
    Iq3Xs "IQ3_XS" 22 Iq3S,
    Q3KS "Q3_K_S" 11 Q3K,
    Q3KM "Q3_K_M" 12 Q3K,
    Q3KL "Q3_K_L" 13 Q3K,
    Iq4Nl "IQ4_NL" 25 Iq4Nl,
    Iq4Xs "IQ4_XS" 30 Iq4Xs,
    Q4KS "Q4_K_S" 14 Q4K,
    Q4KM "Q4_K_M" 15 Q4K,
    Q5KS "Q5_K_S" 16 Q5K,
    Q5KM "Q5_K_M" 17 Q5K,
    Q6K "Q6_K" 18 Q6K,
    Q8_0 "Q8_0" 7 Q8_0,
    F16 "F16" 1 F16,
    Bf16 "BF16" 32 Bf16,
    F32 "F32" 0 F32,
}

/// Other names of kinds.
const ALIASES: [(&str, FileType); 3] = [("Q3_K", FileType::Q3KM), ("Q4_K", FileType::Q4KM), ("Q5_K", FileType::Q5KM)];

impl FileType {
    /// The kind of that name or number; letters of either case.
    pub fn named(text: &str) -> Option<FileType> {
        let all = FileType::ALL.iter().map(|kind| (kind.name(), *kind)).chain(ALIASES);
        let by_name = all.clone().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, kind)| kind);
        by_name.or_else(|| {
            let id = text.parse().ok()?;
            FileType::ALL.iter().copied().find(|kind| kind.id() == id)
        })
    }
}
