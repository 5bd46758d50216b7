//! The table of architectures: what each needs said beyond its metadata and tensors.

use candor_gguf::Gguf;
use candor_ops::Pairing;

use crate::Error;

/// An architecture that the decoder wiring runs.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// GGUF's `general.architecture`.
    pub name: &'static str,
    /// Which elements rotary embedding pairs; the file does not say.
    pub pairing: Pairing,
}

/// Every supported architecture.
pub const ARCHITECTURES: &[Architecture] = &[
    Architecture { name: "llama", pairing: Pairing::Norm },
    Architecture { name: "qwen2", pairing: Pairing::Neox },
    Architecture { name: "qwen3", pairing: Pairing::Neox },
];

impl Architecture {
    /// The row of the file's architecture.
    ///
    /// # Errors
    /// If the file names none or an unknown one.
    pub fn of(gguf: &Gguf) -> Result<Architecture, Error> {
        const KEY: &str = "general.architecture";
        let name = gguf.metadata().str(KEY)?.ok_or_else(|| Error::MissingKey(KEY.into()))?;
        ARCHITECTURES.iter().find(|row| row.name == name).copied().ok_or_else(|| Error::UnknownArchitecture {
            name: name.into(),
            known: ARCHITECTURES.iter().map(|row| row.name).collect(),
        })
    }
}
