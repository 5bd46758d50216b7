//! Which GPUs compute rightly: asked before a model is loaded on one, and remembered.
//!
//! The commonest reason for gibberish is a driver that compiles a shader wrongly. So a model's first layers and its head run
//! on the GPU, a prompt at once and a token after it, and every operation is held against the formulas on the GPU's own
//! inputs. A verdict holds for an adapter with its driver, this version of the library, and what a model asks of shaders:
//! its shapes and formats.

#[cfg(feature = "gpu")]
mod check;
#[cfg(feature = "gpu")]
mod settle;

use std::path::PathBuf;

#[cfg(feature = "gpu")]
pub use candor_verify::{Operation, Operations};
#[cfg(all(feature = "gpu", target_arch = "wasm32"))]
pub(crate) use check::check;
#[cfg(feature = "gpu")]
pub(crate) use settle::settle;

use crate::DeviceInfo;

/// Whether GPUs are verified before a model is loaded on them.
///
/// That takes a second or two, once in a process for each GPU and kind of model. A GPU that computes wrongly is left out by
/// [`Device::Auto`](crate::Device::Auto), and refused by [`Device::Gpu`](crate::Device::Gpu) and a placement in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verify {
    /// They are.
    On {
        /// A folder in which verdicts are kept for other processes, a small file each; it is made if it is not there. `None`
        /// keeps them in this process alone.
        folder: Option<PathBuf>,
    },
    /// They are taken at their word.
    Off,
}

impl Default for Verify {
    /// On, without a folder.
    fn default() -> Self {
        Verify::On { folder: None }
    }
}

/// What was found out of GPUs before a model was loaded, and what followed from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trust {
    /// The GPUs in question, in their order; those that computed wrongly are not used. Empty where nothing was verified.
    pub verdicts: Vec<Verdict>,
    /// Whether GPUs go without cooperative matrices, since one has them wrong and all else right.
    pub without_cooperative: bool,
    /// Why the GPUs could not be verified and [`Device::Auto`](crate::Device::Auto) took the processor; `None` if they could.
    pub unverified: Option<String>,
}

/// What is known of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The GPU.
    pub device: DeviceInfo,
    /// What it computed wrongly first, with the error and its bound; `None` where everything was right.
    pub failure: Option<String>,
    /// Where that comes from.
    pub source: Source,
}

/// Where a verdict comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It was verified now.
    Verified,
    /// This process or a file of the folder knew it.
    Remembered,
}

/// Verifies nothing: there is no GPU.
#[cfg(not(feature = "gpu"))]
pub(crate) async fn settle(
    _: &candor_gguf::Gguf,
    _: &mut crate::LoadOptions,
    _: &mut Vec<crate::gpus::Found>,
) -> Result<Trust, crate::Error> {
    Ok(Trust::default())
}
