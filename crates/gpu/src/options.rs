//! What a user may choose about the device.

use std::path::PathBuf;
use std::time::Duration;

use crate::Variant;

/// Which adapter to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterChoice {
    /// By its place in [`crate::adapters`].
    Index(usize),
    /// The first whose name holds this, in whatever case.
    Name(String),
}

/// What becomes of weights in formats that no shader decodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dequant {
    /// They are refused by name.
    #[default]
    Refuse,
    /// They are decoded on their way up and held as halves.
    ToF16,
}

/// How to open a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuOptions {
    /// The adapter; `None` takes the first that is hardware, discrete before integrated.
    pub adapter: Option<AdapterChoice>,
    /// The ways of computing; `None` takes what the adapter has.
    pub variant: Option<Variant>,
    /// Whether cooperative matrices may be taken, where the variant has them: a driver may have them wrong and all else right.
    pub cooperative: bool,
    /// Inputs of products stay f32, whatever the variant or the adapter has: no packed bytes, no halves, no cooperative matrices.
    pub exact: bool,
    /// Weights in formats without a shader.
    pub dequant: Dequant,
    /// Most bytes of a weight in one buffer; `None` takes the device's limit. Larger weights are split by rows.
    pub part_bytes: Option<u64>,
    /// A folder for compiled shaders, so that the next process starts sooner; `None` keeps none. Only the user may be able
    /// to write there: drivers trust what they read.
    pub cache: Option<PathBuf>,
    /// Multiply-adds of steps of many tokens that are handed to the device at once, more or less: attention is parted by rows,
    /// the product of a matrix is not. Drivers take a device for hung that is busy with one submission for seconds (Windows:
    /// two).
    pub work: u64,
    /// Dispatches that are handed to the device at once, so that it computes while the next are recorded: a token that decodes is
    /// as short as its recording. `None` takes 32 of hardware; of what is emulated, and in a browser, a step at once.
    pub ahead: Option<u32>,
    /// How long the device may take for one submission before it counts as lost.
    pub timeout: Duration,
    /// Faults to be planted in shaders.
    #[cfg(feature = "faults")]
    pub edits: Vec<ShaderEdit>,
}

/// A fault in a shader, as a driver might have it: tests show that it is found.
#[cfg(feature = "faults")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShaderEdit {
    /// The shaders' name, or how it begins: `MatVec { format: Q4_0`.
    pub kernel: &'static str,
    /// What is replaced in its source, wherever it stands. A shader without it fails to compile.
    pub from: &'static str,
    /// What replaces it.
    pub to: &'static str,
}

impl Default for GpuOptions {
    fn default() -> Self {
        GpuOptions {
            adapter: None,
            variant: None,
            cooperative: true,
            exact: false,
            dequant: Dequant::Refuse,
            part_bytes: None,
            cache: None,
            // A sixth of a second for the slowest integrated GPUs, with 10^11 a second; a tenth of a millisecond for the fastest.
            work: 1 << 34,
            ahead: None,
            timeout: Duration::from_secs(120),
            #[cfg(feature = "faults")]
            edits: Vec::new(),
        }
    }
}

impl GpuOptions {
    /// Sets [`adapter`](field@Self::adapter).
    #[must_use]
    pub fn adapter(mut self, adapter: impl Into<Option<AdapterChoice>>) -> Self {
        self.adapter = adapter.into();
        self
    }

    /// Sets [`variant`](field@Self::variant).
    #[must_use]
    pub fn variant(mut self, variant: impl Into<Option<Variant>>) -> Self {
        self.variant = variant.into();
        self
    }

    /// Sets [`cooperative`](field@Self::cooperative).
    #[must_use]
    pub fn cooperative(mut self, cooperative: bool) -> Self {
        self.cooperative = cooperative;
        self
    }

    /// Sets [`exact`](field@Self::exact).
    #[must_use]
    pub fn exact(mut self, exact: bool) -> Self {
        self.exact = exact;
        self
    }

    /// Sets [`dequant`](field@Self::dequant).
    #[must_use]
    pub fn dequant(mut self, dequant: Dequant) -> Self {
        self.dequant = dequant;
        self
    }

    /// Sets [`part_bytes`](field@Self::part_bytes).
    #[must_use]
    pub fn part_bytes(mut self, part_bytes: impl Into<Option<u64>>) -> Self {
        self.part_bytes = part_bytes.into();
        self
    }

    /// Sets [`cache`](field@Self::cache).
    #[must_use]
    pub fn cache(mut self, cache: impl Into<Option<PathBuf>>) -> Self {
        self.cache = cache.into();
        self
    }

    /// Sets [`work`](field@Self::work).
    #[must_use]
    pub fn work(mut self, work: u64) -> Self {
        self.work = work;
        self
    }

    /// Sets [`ahead`](field@Self::ahead).
    #[must_use]
    pub fn ahead(mut self, ahead: impl Into<Option<u32>>) -> Self {
        self.ahead = ahead.into();
        self
    }

    /// Sets [`timeout`](field@Self::timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets [`edits`](field@Self::edits).
    #[cfg(feature = "faults")]
    #[must_use]
    pub fn edits(mut self, edits: Vec<ShaderEdit>) -> Self {
        self.edits = edits;
        self
    }
}
