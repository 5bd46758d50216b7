//! What can go wrong between a file and a text: [`Error`], and the errors that it is made of.

pub use candor_cpu::Unavailable;
pub use candor_gguf::Error as GgufError;
#[cfg(feature = "gpu")]
pub use candor_gpu::Error as GpuError;
pub use candor_kernels::UnknownIsa;
pub use candor_models::Error as ModelError;
pub use candor_ops::Error as OpsError;
pub use candor_tokenizer::Error as TokenizerError;

use crate::{
    adapter,
    fit::{Holder, Shortage},
    overrides::OverrideError,
    sampler, saved,
    size::Size,
};

/// What can go wrong between a file and a text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not a readable GGUF file.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The file's model cannot be run.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The file's vocabulary or chat template cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The file's metadata cannot be replaced so.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// The sampling settings make no sense.
    #[error(transparent)]
    Sampler(#[from] sampler::Error),
    /// The user's own sampler chose no token.
    #[error("own sampler: {0}")]
    OwnSampler(Box<dyn std::error::Error + Send + Sync>),
    /// The user's own processor could not change the logits.
    #[error("own processor: {0}")]
    OwnProcessor(Box<dyn std::error::Error + Send + Sync>),
    /// Invalid adapter, or another model's.
    #[error("adapter {name}: {error}")]
    Adapter {
        /// What the adapter is called.
        name: String,
        /// What is wrong.
        error: adapter::Error,
    },
    /// A model was expected, and an adapter found.
    #[error("the file is an adapter for {arch} models: it is no model itself")]
    AdapterAsModel {
        /// Architecture of the models that it is for.
        arch: String,
    },
    /// A model was expected, and a control vector found.
    #[error("the file is a control vector: it is no model itself, and not supported")]
    ControlVector,
    /// Not as many scales as adapters.
    #[error("scales of adapters: expected {expected}, got {got}")]
    Scales {
        /// Adapters of the model.
        expected: usize,
        /// Scales given.
        got: usize,
    },
    /// A session cannot be saved or taken back.
    #[error(transparent)]
    Saved(#[from] saved::Error),
    /// `CANDOR_ISA` names no instruction set of this machine.
    #[error(transparent)]
    Isa(#[from] UnknownIsa),
    /// No GPU could be opened.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// Something was asked of the system that it does not have.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A call that cannot wait came upon a device that answers later, as a browser's does: the call of the same name that ends
    /// in `_async` is for that.
    #[error("the device answers later, and this call does not wait")]
    NotAwaited,
    /// A GPU was asked for, and the program was built without them.
    #[error("device gpu: this program was built without it (cargo feature `gpu`)")]
    BuiltWithoutGpu,
    /// The formulas were asked for, and the program was built without them.
    #[error("device reference: this program was built without it (cargo feature `reference`)")]
    BuiltWithoutReference,
    /// A limit of memory that the model cannot keep, however many of its layers are taken from the file again and again.
    #[error("memory: expected at least {}, got {}{}", Size(*needed), Size(*limit), if *divides { "" } else { "; the model cannot be divided" })]
    Limit {
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that it may take.
        limit: u64,
        /// Whether layers can be taken from the file.
        divides: bool,
    },
    /// A GPU was asked for, and there are only emulated ones, which must be named.
    #[error("device gpu: this machine has none")]
    NoGpu,
    /// A GPU that was asked for computes wrongly: see [`Verify`](crate::Verify).
    #[error("device {name}: {device} with driver {driver} computes wrongly: {failure}")]
    Untrusted {
        /// Its name.
        name: String,
        /// What it is.
        device: String,
        /// How it is reached.
        driver: String,
        /// What it computed wrongly first.
        failure: String,
    },
    /// A GPU was asked for, and the model has operations that it does not have.
    #[error("device gpu: it does not have what this model needs ({})", operations.join(", "))]
    MissingOnGpu {
        /// The operations.
        operations: Vec<&'static str>,
    },
    /// A device that this machine does not have.
    #[error("device {name}: expected one of {}", known.join(", "))]
    NoSuchDevice {
        /// What was asked for.
        name: String,
        /// What would do.
        known: Vec<String>,
    },
    /// No GPU is reached through an interface that was asked for.
    #[error("device {name}: {reason}{}", there(others))]
    NoInterface {
        /// What was asked for.
        name: String,
        /// The reason.
        reason: String,
        /// The GPUs that there are, with the interfaces to them.
        others: Vec<String>,
    },
    /// The parts of a placement are not the model.
    #[error("parts: expected devices with layers that follow each other from 0 to {layers}")]
    Parts {
        /// Layers of the model.
        layers: usize,
    },
    /// A limit of memory was named beside a placement in parts.
    #[error("parts: a limit of memory decides itself which layers stay; leave out one of the two")]
    LimitedParts,
    /// The vocabulary and the embedding disagree.
    #[error("tokenizer has {tokens} tokens, token_embd.weight has {rows} rows")]
    VocabularySize {
        /// Tokens of the vocabulary.
        tokens: usize,
        /// Rows of the embedding.
        rows: usize,
    },
    /// The prompt has no tokens at all.
    #[error("the prompt is empty and the vocabulary adds no BOS token: there is nothing to continue")]
    EmptyPrompt,
    /// The prompt does not fit.
    #[error("the prompt has {prompt} tokens, the context holds {context}")]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Positions of the session.
        context: usize,
    },
    /// A context was to be slid over where answers share steps.
    #[error("answers that share steps end where the context is full: sliding over it is for sessions")]
    Slides,
    /// The context asked for is longer than what is supported of the model.
    #[error("context of {context}: this architecture is supported up to {limit} positions")]
    ContextLimit {
        /// Positions asked for.
        context: usize,
        /// The most that will do.
        limit: usize,
    },
    /// A context does not fit into memory.
    #[error("{0}")]
    Memory(Box<Shortage>),
    /// Weights do not fit into memory that they are to be read into.
    #[error("the weights take {} of memory where they are read instead of mapped, and there are {holder}", Size(*bytes))]
    WeightsMemory {
        /// Bytes of them.
        bytes: u64,
        /// What does not hold them.
        holder: Holder,
    },
    /// A token id outside of the vocabulary.
    #[error("token {token} is outside of the vocabulary of {vocab}")]
    Token {
        /// The id.
        token: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// An id names no sequence of the batch: it was removed, or is another batch's.
    #[error("no such sequence in this batch")]
    NoSuchSequence,
    /// There are as many sequences as there can be.
    #[error("expected at most {most} sequences at once")]
    SequencesFull {
        /// Sequences that the batch has room for.
        most: usize,
    },
    /// There are as many checkpoints as there can be.
    #[error("expected at most {most} checkpoints at once")]
    CheckpointsFull {
        /// Checkpoints that the batch has room for.
        most: usize,
    },
    /// Not as many tokens as sequences.
    #[error("expected a token for each of {expected} sequences, got {got}")]
    TokenForEach {
        /// Sequences.
        expected: usize,
        /// Tokens.
        got: usize,
    },
    /// The pool of keys and values has too few free pages for a step.
    #[error("keys and values: {free} of {total} pages are free, and the step needs more: a sequence has to end first")]
    PagesFull {
        /// Pages that no sequence has.
        free: usize,
        /// All pages.
        total: usize,
    },
    /// A sequence was to get tokens twice in a step.
    #[error("the sequence has tokens in this step already")]
    SequenceInStep,
    /// A step was to have more rows, or more rows with results, than there is room for.
    #[error("expected a step of at most {most} rows, got {rows}")]
    StepTooLong {
        /// Rows asked for.
        rows: usize,
        /// Rows that there is room for.
        most: usize,
    },
    /// Tokens cannot be guessed ahead for a model, or by it.
    #[error("speculative decoding: {architecture} keeps states, which cannot be taken back where a guess was wrong")]
    SpeculationOnStates {
        /// The model's architecture.
        architecture: String,
    },
    /// A draft model has another vocabulary.
    #[error("draft model: expected token {id} to be {target:?} as in the model, got {draft:?}")]
    DraftVocabulary {
        /// The first token that differs.
        id: u32,
        /// Its text in the model.
        target: String,
        /// Its text in the draft model.
        draft: String,
    },
    /// A draft model has more tokens or fewer.
    #[error("draft model: expected {target} tokens as in the model, got {draft}")]
    DraftVocabularySize {
        /// Tokens of the model.
        target: usize,
        /// Tokens of the draft model.
        draft: usize,
    },
    /// The file brings no chat template.
    #[error("the model has no chat template")]
    NoChatTemplate,
    /// A model that gives vectors was to continue a text.
    #[error("the model ({arch}) is an encoder: it makes vectors of texts and continues none")]
    Encoder {
        /// The file's architecture.
        arch: String,
    },
    /// A model that answers texts was to continue one.
    #[error("the model ({arch}) answers a text that it has read: it continues none")]
    Answers {
        /// The file's architecture.
        arch: String,
    },
    /// Something goes only with models that continue texts.
    #[error("{what}: the model ({arch}) answers a text that it has read, which goes without")]
    NotForAnswers {
        /// What was asked for.
        what: &'static str,
        /// The file's architecture.
        arch: String,
    },
    /// A text was to be read by a model that has no encoder.
    #[error("the model ({arch}) has no encoder that reads a text before it is answered")]
    NoEncoder {
        /// The file's architecture.
        arch: String,
    },
    /// Nobody says how the rows of a text become one.
    #[error("metadata key {0} is missing: how the vectors of its tokens become the text's is unknown")]
    NoPooling(String),
    /// The file's way of pooling does not exist.
    #[error("metadata key {key}: expected 0 to 4, got {got}")]
    Pooling {
        /// The key.
        key: String,
        /// Its value.
        got: u32,
    },
    /// Scores were asked of a model that gives none.
    #[error("the model is no reranker: it has no tensor cls.weight or cls.output.weight")]
    NoRank,
    /// A text without tokens was to become a vector.
    #[error("text {number} has no tokens")]
    NoTokens {
        /// Its number, from 1.
        number: usize,
    },
    /// A text does not fit.
    #[error("text {number} has {tokens} tokens, the context holds {context}")]
    TextTooLong {
        /// Its number, from 1.
        number: usize,
        /// Its tokens.
        tokens: usize,
        /// Positions of the model.
        context: usize,
    },
    /// The computation of a vector gave no usable numbers.
    #[error("the vector of text {number} is not finite: the file is damaged or the computation is wrong")]
    VectorNotFinite {
        /// Its number, from 1.
        number: usize,
    },
    /// The text is too short to be measured.
    #[error("tokens in the text: {tokens}, and two windows need at least {needed}")]
    TextTooShort {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens that would do.
        needed: usize,
    },
    /// A token was to be chosen from a row whose logits nobody wanted.
    #[error("a token is chosen from logits, and the row was pushed without")]
    NoLogits,
    /// The computation gave no usable numbers.
    #[error("the logits at position {position} are not finite: the file is damaged or the computation is wrong")]
    NotFinite {
        /// Position of the token whose logits they are.
        position: usize,
    },
}

/// What there is instead.
fn there(others: &[String]) -> String {
    if others.is_empty() { "; there is no GPU".to_owned() } else { format!("; there is {}", others.join(", ")) }
}
