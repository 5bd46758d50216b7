//! For browsers, where a device answers later: each call that reads from one, awaited. The bodies are those of the calls without
//! `_async`, which end with [`Error::NotAwaited`] there where they would have to wait.
//!
//! A future that is dropped before its end leaves the session or batch as an error of the device does: what was under way may have
//! been computed or not, and is computed again.

use std::io::Write;

use candor_gguf::Gguf;

use crate::{
    BackendVisitor, Batch, Cancel, DeviceInfo, Embedder, Error, GenerateOptions, Generation, LoadOptions, Logits,
    Model, Observer, Pause, Perplexity, Piece, Role, SequenceId, Sequences, Session, Want, backends, perplexity,
    progress::Until,
};
#[cfg(feature = "gpu")]
use crate::{
    gpus,
    trust::{self, Operations},
};

impl Model {
    /// [`Model::from_gguf`].
    ///
    /// # Errors
    /// As there.
    pub async fn from_gguf_async(gguf: Gguf, options: &LoadOptions) -> Result<Model, Error> {
        Model::from_gguf_body(gguf, options).await
    }

    /// [`Model::builtin`].
    ///
    /// # Errors
    /// As there.
    #[cfg(feature = "builtin")]
    pub async fn builtin_async(options: &LoadOptions) -> Result<Model, Error> {
        Model::builtin_body(options).await
    }
}

impl Batch {
    /// [`Batch::step`].
    ///
    /// # Errors
    /// As there.
    pub async fn step_async(&mut self) -> Result<(), Error> {
        self.step_observed_body(None, None).await.map(drop)
    }

    /// [`Batch::scale_adapters`].
    ///
    /// # Errors
    /// As there.
    pub async fn scale_adapters_async(&mut self, id: SequenceId, scales: &[f32]) -> Result<(), Error> {
        self.scale_adapters_body(id, scales).await
    }

    /// [`Batch::step_observed`].
    ///
    /// # Errors
    /// As there.
    pub async fn step_observed_async(&mut self, observer: Option<&mut dyn Observer>) -> Result<(), Error> {
        self.step_observed_body(observer, None).await.map(drop)
    }

    /// [`Batch::catch_up_once`].
    ///
    /// # Errors
    /// As there.
    pub async fn catch_up_once_async(&mut self, id: SequenceId) -> Result<bool, Error> {
        self.catch_up_once_body(id).await
    }

    /// [`Batch::checkpoint`].
    ///
    /// # Errors
    /// As there.
    pub async fn checkpoint_async(&mut self, id: SequenceId) -> Result<(), Error> {
        self.checkpoint_body(id).await
    }

    /// [`Batch::read_text`].
    ///
    /// # Errors
    /// As there.
    pub async fn read_text_async(
        &mut self,
        id: SequenceId,
        text: &[u32],
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), Error> {
        self.read_text_body(id, text, observer).await
    }

    /// [`Batch::fork`].
    ///
    /// # Errors
    /// As there.
    pub async fn fork_async(&mut self, from: SequenceId, len: usize) -> Result<SequenceId, Error> {
        self.fork_body(from, len).await
    }

    /// [`Batch::fork_into`].
    ///
    /// # Errors
    /// As there.
    pub async fn fork_into_async(&mut self, from: SequenceId, to: SequenceId, len: usize) -> Result<(), Error> {
        self.fork_into_body(from, to, len).await
    }

    /// [`Batch::save`].
    ///
    /// # Errors
    /// As there.
    pub async fn save_async(&mut self, id: SequenceId, out: &mut dyn Write) -> Result<(), crate::Error> {
        self.save_body(id, out).await
    }
}

impl Session {
    /// [`Session::scale_adapters`].
    ///
    /// # Errors
    /// As there.
    pub async fn scale_adapters_async(&mut self, scales: &[f32]) -> Result<(), Error> {
        self.scale_adapters_body(scales).await
    }

    /// [`Session::evaluate`].
    ///
    /// # Errors
    /// As there.
    pub async fn evaluate_async(&mut self, tokens: &[u32]) -> Result<(), Error> {
        self.evaluate_body(tokens, &Cancel::new()).await.map(drop)
    }

    /// [`Session::evaluate_until`]. `pause` may let others have the thread between layers, and `cancel` ends the step there.
    ///
    /// # Errors
    /// As there.
    pub async fn evaluate_until_async(
        &mut self,
        tokens: &[u32],
        cancel: &Cancel,
        pause: &Pause<'_>,
    ) -> Result<bool, Error> {
        self.evaluate_for(Want::Logits, tokens, Until { cancel, progress: None, pause: Some(pause) }).await
    }

    /// [`Session::decode`].
    ///
    /// # Errors
    /// As there.
    pub async fn decode_async(&mut self, token: u32) -> Result<(), Error> {
        self.decode_body(token).await
    }

    /// [`Session::evaluate_each`].
    ///
    /// # Errors
    /// As there.
    pub async fn evaluate_each_async(&mut self, tokens: &[u32], each: impl FnMut(usize, &[f32])) -> Result<(), Error> {
        self.evaluate_each_body(tokens, each).await
    }

    /// [`Session::observe`].
    ///
    /// # Errors
    /// As there.
    pub async fn observe_async(
        &mut self,
        tokens: &[u32],
        role: Role,
        logits: Logits,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.observe_body(tokens, role, logits, observer).await
    }

    /// [`Session::read_text`].
    ///
    /// # Errors
    /// As there.
    pub async fn read_text_async(&mut self, text: &[u32]) -> Result<(), Error> {
        self.read_text_body(text).await
    }

    /// [`Session::observe_text`].
    ///
    /// # Errors
    /// As there.
    pub async fn observe_text_async(&mut self, text: &[u32], observer: &mut dyn Observer) -> Result<(), Error> {
        self.observe_text_body(text, observer).await
    }

    /// [`Session::generate`].
    ///
    /// # Errors
    /// As there.
    pub async fn generate_async(&mut self, prompt: &[u32], options: GenerateOptions) -> Result<Generation<'_>, Error> {
        self.generate_body(prompt, options).await
    }

    /// [`Session::save`].
    ///
    /// # Errors
    /// As there.
    pub async fn save_async(&mut self, out: &mut dyn Write) -> Result<(), crate::Error> {
        self.save_body(out).await
    }
}

impl Generation<'_> {
    /// The next piece of text, as its iterator gives it; `None` at the end.
    ///
    /// # Errors
    /// As there.
    pub async fn next_async(&mut self) -> Result<Option<Piece>, Error> {
        self.next_body().await
    }

    /// [`Generation::save`].
    ///
    /// # Errors
    /// As there.
    pub async fn save_async(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        self.save_body(out).await
    }
}

impl Sequences {
    /// [`Sequences::scale_adapters`].
    ///
    /// # Errors
    /// As there.
    pub async fn scale_adapters_async(&mut self, scales: &[f32]) -> Result<(), Error> {
        self.scale_adapters_body(scales).await
    }

    /// [`Sequences::fork`].
    ///
    /// # Errors
    /// As there.
    pub async fn fork_async(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.fork_body(from, to).await
    }

    /// [`Sequences::read_text`].
    ///
    /// # Errors
    /// As there.
    pub async fn read_text_async(&mut self, sequence: usize, text: &[u32]) -> Result<(), Error> {
        self.read_text_body(sequence, text).await
    }

    /// [`Sequences::evaluate`].
    ///
    /// # Errors
    /// As there.
    pub async fn evaluate_async(&mut self, sequence: usize, tokens: &[u32]) -> Result<(), Error> {
        self.evaluate_body(sequence, tokens, &Cancel::new()).await.map(drop)
    }

    /// [`Sequences::evaluate_until`].
    ///
    /// # Errors
    /// As there.
    pub async fn evaluate_until_async(
        &mut self,
        sequence: usize,
        tokens: &[u32],
        cancel: &Cancel,
    ) -> Result<bool, Error> {
        self.evaluate_body(sequence, tokens, cancel).await
    }

    /// [`Sequences::advance`].
    ///
    /// # Errors
    /// As there.
    pub async fn advance_async(&mut self, tokens: &[u32]) -> Result<(), Error> {
        self.advance_body(tokens).await
    }
}

impl Embedder {
    /// [`Embedder::embed`].
    ///
    /// # Errors
    /// As there.
    pub async fn embed_async(
        &mut self,
        texts: &[Vec<u32>],
        progress: impl FnMut(usize),
    ) -> Result<Vec<Vec<f32>>, Error> {
        self.embed_body(texts, progress).await
    }
}

/// [`crate::visit_backend`].
///
/// # Errors
/// As there.
pub async fn visit_backend_async<V: BackendVisitor>(options: &LoadOptions, visitor: V) -> Result<V::Output, Error> {
    backends::visit_backend_body(options, visitor).await
}

/// [`crate::devices`].
///
/// # Errors
/// As there.
pub async fn devices_async() -> Result<Vec<DeviceInfo>, Error> {
    backends::devices_body().await
}

/// [`crate::chosen_gpus`].
///
/// # Errors
/// As there.
pub async fn chosen_gpus_async(options: &LoadOptions) -> Result<Vec<DeviceInfo>, Error> {
    backends::chosen_gpus_body(options).await
}

/// [`crate::perplexity`].
///
/// # Errors
/// As there.
pub async fn perplexity_async(
    session: &mut Session,
    tokens: &[u32],
    progress: impl FnMut(Perplexity, usize),
) -> Result<Perplexity, Error> {
    perplexity::perplexity_body(session, tokens, progress).await
}

/// Verifies the first GPU that options choose, whatever is known of it, and gives all that was found: as before a model is loaded
/// on it.
///
/// # Errors
/// If they choose none, or it cannot hold a part of the model, or fails.
#[cfg(feature = "gpu")]
pub async fn verify_gpu_async(gguf: &Gguf, options: &LoadOptions) -> Result<Operations, Error> {
    let gpus = gpus::chosen(options).await?;
    trust::check(gguf, options, gpus.first().ok_or(Error::NoGpu)?).await
}
