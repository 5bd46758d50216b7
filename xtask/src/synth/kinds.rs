//! The kinds of files that are made, by the names of the command: mixtures of `candor_convert`, and plain ones of formats that
//! are to be measured by themselves.

use candor_convert::{FileType, Mix};
use candor_gguf::Format;

/// A kind of file.
pub struct Kind {
    /// What the command line calls it.
    pub name: &'static str,
    /// llama.cpp's `general.file_type`.
    pub file_type: u32,
    kind: FileType,
    /// The format of all matrices but the head, and that of the head, where it is no mixture.
    plain: Option<(Format, Format)>,
}

const fn mixture(name: &'static str, kind: FileType) -> Kind {
    Kind { name, file_type: kind.id(), kind, plain: None }
}

const fn plain(name: &'static str, kind: FileType, head: Format) -> Kind {
    Kind { name, file_type: kind.id(), kind, plain: Some((kind.main(), head)) }
}

/// Every kind there is.
pub const KINDS: &[Kind] = &[
    mixture("f32", FileType::F32),
    mixture("f16", FileType::F16),
    mixture("bf16", FileType::Bf16),
    mixture("q8_0", FileType::Q8_0),
    mixture("q4_0", FileType::Q4_0),
    mixture("q4_1", FileType::Q4_1),
    mixture("q5_0", FileType::Q5_0),
    mixture("q5_1", FileType::Q5_1),
    plain("mxfp4", FileType::Mxfp4Moe, Format::Q8_0),
    // llama.cpp reads such files and makes none.
    Kind { name: "nvfp4", file_type: 39, kind: FileType::Q8_0, plain: Some((Format::Nvfp4, Format::Q8_0)) },
    plain("iq1_s", FileType::Iq1S, Format::Q6K),
    plain("iq2_xxs", FileType::Iq2Xxs, Format::Q6K),
    plain("iq2_xs", FileType::Iq2Xs, Format::Q6K),
    Kind { name: "iq2_s", file_type: 28, kind: FileType::Iq2S, plain: Some((Format::Iq2S, Format::Q6K)) },
    plain("iq3_xxs", FileType::Iq3Xxs, Format::Q6K),
    plain("iq3_s", FileType::Iq3S, Format::Q6K),
    plain("tq1_0", FileType::Tq1_0, Format::Q6K),
    plain("tq2_0", FileType::Tq2_0, Format::Q6K),
    mixture("q2_k", FileType::Q2K),
    mixture("q3_k_m", FileType::Q3KM),
    mixture("q4_k_s", FileType::Q4KS),
    mixture("q4_k_m", FileType::Q4KM),
    mixture("q5_k_m", FileType::Q5KM),
    mixture("q6_k", FileType::Q6K),
    mixture("iq4_nl", FileType::Iq4Nl),
    mixture("iq4_xs", FileType::Iq4Xs),
];

impl Kind {
    /// What its tensors become, in a model whose embeddings are its head, or not.
    pub fn mix(&self, tied: bool) -> Mix {
        let mut mix = Mix::new(self.kind);
        if let Some((main, head)) = self.plain {
            (mix.main, mix.pure, mix.head) = (main, true, Some(head));
            mix.embedding = tied.then_some(head);
        }
        mix
    }
}
