//! Loading a model: the file, its weights on a backend, its vocabulary and chat template.

use std::{path::Path, sync::Arc};

use candor_cpu::{Batching, Cpus, Spawn};
use candor_gguf::{Format, Gguf, Pages};
#[cfg(feature = "gpu")]
use candor_gpu::GpuOptions;
use candor_kernels::Kernels;
use candor_models::{Config, Gives};
use candor_tokenizer::{ChatContext, ChatTemplate, Encode, Message, Tokenizer};

use crate::{
    Activations, Adapter, Batch, BatchOptions, Device, EmbedOptions, Embedder, Error, Offload, Overrides, Placement,
    Role, Rounding, Sequences, Session, SessionOptions, Trust, Verify, adapter,
    backends::{self, Placed},
    batch::Room,
    fit::{self, Fit, Promise},
    now::now,
    runner::Loaded,
};

/// Where the weights of a file are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// In the file's mapping, shared with other programs and given up when memory is short.
    #[default]
    Mapped,
    /// In memory of this process, read at once.
    Read,
}

/// How to load a model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Where to run.
    pub device: Device,
    /// What is asked of GPUs, where one is to run.
    pub offload: Offload,
    /// How the model is laid out over devices.
    pub placement: Placement,
    /// Whether GPUs are verified before they are used.
    pub verify: Verify,
    /// What changes the model's weights. Sessions choose by how much: see [`Session::scale_adapters`].
    pub adapters: Vec<Adapter>,
    /// What of the file's metadata is replaced before anything reads it.
    pub overrides: Overrides,
    /// Most bytes of weights, caches and values in flight on the device, with a session as [`LoadOptions::session`] says. Layers
    /// beyond it are taken from the file for each step. `None` is no limit. A placement in parts ([`Placement::Parts`]) has
    /// none.
    pub memory: Option<u64>,
    /// The session that a plan leaves room for in a GPU's memory.
    pub session: SessionOptions,
    /// Threads of the processor for a token; 0 takes one per physical core.
    pub threads: usize,
    /// What decides by which of a format's kernels a row is multiplied, where the processor has several.
    pub batching: Batching,
    /// What the inputs of products are.
    pub activations: Activations,
    /// The processor's kernels; `None` leaves that to `CANDOR_ISA`. For tests, whose tables may be emulated.
    #[doc(hidden)]
    pub kernels: Option<&'static Kernels>,
    /// Threads of the processor for several tokens at once; 0 takes as many as for one.
    pub threads_batch: usize,
    /// The processors that these threads keep to; `None` leaves that to the system.
    pub cpus: Option<Cpus>,
    /// Where these threads come from.
    pub spawn: Spawn,
    /// Where [`Model::open`] puts the weights.
    pub weights: Weights,
    /// Asks the system for huge pages: for caches, activations, and weights that were read.
    pub huge_pages: bool,
    /// How GPUs are used. An adapter named here is taken instead of those that [`LoadOptions::offload`] names.
    #[cfg(feature = "gpu")]
    pub gpu: GpuOptions,
}

setters!(LoadOptions {
    device: Device,
    offload: Offload,
    placement: Placement,
    verify: Verify,
    adapters: Vec<Adapter>,
    overrides: Overrides,
    memory: impl Into<Option<u64>>,
    session: SessionOptions,
    threads: usize,
    batching: Batching,
    activations: Activations,
    #[doc(hidden)]
    kernels: impl Into<Option<&'static Kernels>>,
    threads_batch: usize,
    cpus: impl Into<Option<Cpus>>,
    spawn: Spawn,
    weights: Weights,
    huge_pages: bool,
    #[cfg(feature = "gpu")]
    gpu: GpuOptions,
});

impl LoadOptions {
    /// The kernels that the processor runs.
    pub(crate) fn table(&self) -> Result<&'static Kernels, Error> {
        let table = self.kernels.map_or_else(Kernels::from_env, Ok)?;
        Ok(match self.activations {
            Activations::Fastest => table,
            Activations::F32 => table.exact,
        })
    }
}

/// A loaded model. Cheap to clone; every clone shares the weights.
#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
}

struct Inner {
    gguf: Gguf,
    tokenizer: Arc<Tokenizer>,
    template: Option<Result<ChatTemplate, String>>,
    placed: Placed,
    adapters: Vec<Adapter>,
    _weights: Promise,
}

/// The small chat model that the program carries.
#[cfg(feature = "builtin")]
static BUILTIN: &[u8] = include_bytes!("../assets/candor-tiny.gguf");

impl Model {
    /// Opens a GGUF file (any one of its shards), memory-mapped or read into memory.
    ///
    /// # Errors
    /// If the file cannot be read, or holds something that cannot be run: the message names it. If a GPU was asked for
    /// that this machine lacks, or that computes wrongly ([`Error::Untrusted`]).
    pub fn open(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Model, Error> {
        let path = path.as_ref();
        if options.weights == Weights::Read {
            let bytes = Gguf::open(path)?.file_bytes();
            fit::holds_weights(bytes)?;
        }
        let gguf = match (options.weights, options.huge_pages) {
            (Weights::Mapped, _) => Gguf::open(path)?,
            (Weights::Read, false) => Gguf::read(path, Pages::Usual)?,
            (Weights::Read, true) => Gguf::read(path, Pages::Huge)?,
        };
        Model::from_gguf(gguf, options)
    }

    /// The model that the program carries: small talk, short stories and simple questions.
    ///
    /// # Errors
    /// If `CANDOR_ISA` names no instruction set of this machine, or a GPU as in [`Model::open`].
    #[cfg(feature = "builtin")]
    pub fn builtin(options: &LoadOptions) -> Result<Model, Error> {
        now(Model::builtin_body(options))
    }

    /// What [`Self::builtin`] does.
    #[cfg(feature = "builtin")]
    pub(crate) async fn builtin_body(options: &LoadOptions) -> Result<Model, Error> {
        let gguf = Gguf::from_bytes(bytes::Bytes::from_static(BUILTIN))?;
        Model::from_gguf_body(gguf, options).await
    }

    /// Loads an opened file.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn from_gguf(gguf: Gguf, options: &LoadOptions) -> Result<Model, Error> {
        now(Model::from_gguf_body(gguf, options))
    }

    /// What [`Self::from_gguf`] does.
    pub(crate) async fn from_gguf_body(gguf: Gguf, options: &LoadOptions) -> Result<Model, Error> {
        let gguf = options.overrides.apply(gguf)?;
        adapter::refuse(&gguf)?;
        let config = Config::from_gguf(&gguf)?;
        let tokenizer = Arc::new(Tokenizer::from_metadata(gguf.metadata())?);
        if tokenizer.vocab_size() > config.vocab {
            return Err(Error::VocabularySize { tokens: tokenizer.vocab_size(), rows: config.vocab });
        }
        let template = gguf.metadata().str("tokenizer.chat_template")?;
        let template = template.map(|source| ChatTemplate::new(source).map_err(|error| error.to_string()));
        let placed = backends::load(&gguf, options).await?;
        let adapters = options.adapters.clone();
        // Of this process's own memory, and touched by now.
        let _weights = Promise::new(if gguf.is_mapped() { 0 } else { gguf.file_bytes() });
        Ok(Model { inner: Arc::new(Inner { gguf, tokenizer, template, placed, adapters, _weights }) })
    }

    /// Where the model runs, for people to read: `cpu, avx2 kernels, 8 threads`.
    pub fn device_label(&self) -> &str {
        &self.inner.placed.label
    }

    /// How the GPU is opened on which the model lies as a whole.
    #[cfg(all(feature = "gpu", not(target_arch = "wasm32")))]
    pub(crate) fn only_gpu(&self) -> Option<&candor_gpu::GpuOptions> {
        self.inner.placed.only_gpu.as_ref()
    }

    /// How many layers went to GPUs and why, for people to read; `None` where there was nothing to decide.
    pub fn placement(&self) -> Option<&str> {
        self.inner.placed.reason.as_deref()
    }

    /// What was found out of GPUs before it was loaded, such as why one was left out.
    pub fn trust(&self) -> &Trust {
        &self.inner.placed.trust
    }

    /// Whether a GPU was asked to take more than its budget, so that it may run out of memory.
    pub fn is_over_budget(&self) -> bool {
        self.inner.placed.over_budget
    }

    /// Whether the logits of a token are the same to the bit however many rows are computed beside it, for the same
    /// [`Role`](crate::Role) of each token.
    pub fn is_batch_invariant(&self) -> bool {
        self.inner.placed.batch_invariant
    }

    /// How products with weights of a format are rounded, in rows of a role; `None` where neither the processor's kernels nor one
    /// GPU computes all of them.
    pub fn rounding(&self, format: Format, role: Role) -> Option<Rounding> {
        #[cfg(all(feature = "gpu", not(target_arch = "wasm32")))]
        if let Some(variant) = self.inner.placed.variant {
            return Some(Rounding::of_gpu(variant, format, role));
        }
        self.inner.placed.arithmetic.map(|arithmetic| arithmetic.rounding(format, role))
    }

    /// Whether one arithmetic for all rows was asked for, and is had.
    pub(crate) fn promises_same_bits(&self) -> bool {
        self.inner.placed.one_arithmetic
    }

    /// What was asked for of the inputs of products.
    pub fn activations(&self) -> Activations {
        self.inner.placed.activations
    }

    /// What changes its weights, in the order of their scales.
    pub fn adapters(&self) -> &[Adapter] {
        &self.inner.adapters
    }

    /// The adapters' scales where nobody chooses others.
    pub(crate) fn scales(&self) -> Vec<f32> {
        self.adapters().iter().map(Adapter::scale).collect()
    }

    /// Says so where there are not as many scales as adapters.
    pub(crate) fn expect_scales(&self, scales: &[f32]) -> Result<(), Error> {
        match (self.adapters().len(), scales.len()) {
            (expected, got) if expected != got => Err(Error::Scales { expected, got }),
            _ => Ok(()),
        }
    }

    /// The file.
    pub fn gguf(&self) -> &Gguf {
        &self.inner.gguf
    }

    /// The vocabulary.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.inner.tokenizer
    }

    /// The dimensions.
    pub fn config(&self) -> &Config {
        self.inner.placed.loaded.config()
    }

    /// The file's chat template, where it has one.
    ///
    /// # Errors
    /// If the template cannot be parsed; the message has the line.
    pub fn chat_template(&self) -> Result<Option<&ChatTemplate>, Error> {
        match &self.inner.template {
            None => Ok(None),
            Some(Ok(template)) => Ok(Some(template)),
            Some(Err(_)) => {
                // Parse again for the error itself, which cannot be cloned.
                let source = self.gguf().metadata().str("tokenizer.chat_template")?.unwrap_or_default();
                Err(ChatTemplate::new(source).err().map_or(Error::NoChatTemplate, Error::from))
            }
        }
    }

    /// The text of a conversation in the words of the file's template, ready for [`Model::encode_prompt`].
    ///
    /// # Errors
    /// If the file has no template, or the template raises.
    pub fn render(&self, messages: &[Message]) -> Result<String, Error> {
        let template = self.chat_template()?.ok_or(Error::NoChatTemplate)?;
        Ok(template.render(messages, &self.chat_context())?)
    }

    /// What templates see besides the messages: BOS and EOS texts, with the opening of an answer asked for.
    pub fn chat_context(&self) -> ChatContext {
        let text = |id: Option<u32>| id.and_then(|id| self.tokenizer().token(id)).unwrap_or_default().to_owned();
        ChatContext {
            add_generation_prompt: true,
            bos_token: text(self.tokenizer().bos()),
            eos_token: text(self.tokenizer().eos()),
            ..ChatContext::default()
        }
    }

    /// Token ids of a conversation.
    ///
    /// # Errors
    /// If the file has no template, or the template raises.
    pub fn encode_chat(&self, messages: &[Message]) -> Result<Vec<u32>, Error> {
        Ok(self.encode_prompt(&self.render(messages)?))
    }

    /// Token ids of a prompt: special tokens are recognised, BOS is added as the file says and never twice; so is EOS, which
    /// the texts that encoders read end with.
    pub fn encode_prompt(&self, text: &str) -> Vec<u32> {
        self.tokenizer().encode(text, Encode::prompt())
    }

    /// The ids of a query and a document for a reranker: by the file's template `rerank`, or as a pair.
    ///
    /// # Errors
    /// If the template is no text.
    pub fn encode_pair(&self, query: &str, document: &str) -> Result<Vec<u32>, Error> {
        let tokenizer = self.tokenizer();
        Ok(match self.gguf().metadata().str("tokenizer.chat_template.rerank")? {
            Some(template) => {
                // A query that speaks of {document} is a query.
                let parts = template.split("{document}").map(|part| part.replace("{query}", query));
                let text = parts.collect::<Vec<_>>().join(document);
                tokenizer.encode(&text, Encode { bos: false, specials: true })
            }
            None => tokenizer.encode_pair(query, document),
        })
    }

    /// Whether the model gives embeddings alone, and continues no text.
    pub fn is_encoder(&self) -> bool {
        self.config().gives == Gives::Embeddings
    }

    /// Whether an encoder reads a text, which the model then answers, instead of continuing it.
    pub fn is_encoder_decoder(&self) -> bool {
        self.config().start.is_some()
    }

    /// Whether vectors come from tokens that see each other: of an encoder, alone or not.
    pub(crate) fn encodes(&self) -> bool {
        self.is_encoder() || self.is_encoder_decoder()
    }

    /// Says so where the model answers texts, and `what` makes no sense for it.
    ///
    /// # Errors
    /// If it does.
    pub fn refuse_answers(&self, what: &'static str) -> Result<(), Error> {
        match self.is_encoder_decoder() {
            false => Ok(()),
            true => Err(Error::NotForAnswers { what, arch: self.architecture().to_owned() }),
        }
    }

    /// What makes vectors, or a reranker's scores, of texts.
    ///
    /// # Errors
    /// If neither the options nor the file say how, or scores are asked for and the model has none.
    pub fn embedder(&self, options: &EmbedOptions) -> Result<Embedder, Error> {
        Embedder::new(self.clone(), options)
    }

    /// Where its weights are.
    pub(crate) fn loaded(&self) -> &Loaded {
        &self.inner.placed.loaded
    }

    /// Says so where it continues no text.
    ///
    /// # Errors
    /// If the model is an encoder.
    pub fn continues_text(&self) -> Result<(), Error> {
        match self.is_encoder() {
            false => Ok(()),
            true => Err(Error::Encoder { arch: self.architecture().to_owned() }),
        }
    }

    /// GGUF's name of the architecture, which its keys begin with.
    pub(crate) fn architecture(&self) -> &str {
        self.gguf().metadata().str("general.architecture").ok().flatten().unwrap_or_default()
    }

    /// How long the context of such a session would be, without making one.
    ///
    /// # Errors
    /// [`Error::Memory`] where it does not fit.
    pub fn fit(&self, options: &SessionOptions) -> Result<Fit, Error> {
        Room::fit(self, &options.of_batch(1))
    }

    /// A session: a conversation's keys and values, and room to compute. Where the model answers texts,
    /// [`Session::read_text`] or [`Session::generate`] comes first.
    ///
    /// # Errors
    /// If the model is an encoder, or the context does not fit into memory.
    pub fn session(&self, options: &SessionOptions) -> Result<Session, Error> {
        self.continues_text()?;
        Session::new(self.clone(), options)
    }

    /// Room for sequences that come and go, and whose tokens are computed together in steps of any mixture.
    ///
    /// # Errors
    /// If the model is an encoder, or the context does not fit into memory.
    pub fn batch(&self, options: &BatchOptions) -> Result<Batch, Error> {
        self.continues_text()?;
        Batch::new(self.clone(), Room::new(self, options)?, options.sequences.max(1), options.kept)
    }

    /// `count` sequences that are decoded together; the options are those of each.
    ///
    /// # Errors
    /// If the model is an encoder, or their contexts do not fit into memory.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn sequences(&self, count: usize, options: &SessionOptions) -> Result<Sequences, Error> {
        self.continues_text()?;
        Sequences::new(self.clone(), count, options)
    }
}
