//! The constants of a recurrence, and what of its source they decide.

/// The constants of a recurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recur {
    /// Elements of a key.
    pub(crate) keys: u32,
    pub(crate) fading: Fading,
    /// Whether something is read from the state and taken back.
    pub(crate) erase: bool,
    /// Whether the present has a weight of its own.
    pub(crate) bonus: bool,
}

/// What the state fades by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fading {
    Keys,
    Heads,
    Rates,
}

/// Invocations of a workgroup.
const GROUP: u32 = 64;

/// Elements of a key that one invocation keeps: up to this number they lie in registers.
const ELEMENTS: u32 = 16;

impl Recur {
    /// Invocations that share a column of the state.
    pub(crate) fn parts(self) -> u32 {
        self.keys.div_ceil(ELEMENTS).next_power_of_two().min(GROUP)
    }

    /// Columns of a workgroup.
    pub(crate) fn columns(self) -> u32 {
        GROUP / self.parts()
    }

    /// Elements of a key per invocation.
    pub(crate) fn elements(self) -> u32 {
        self.keys.div_ceil(self.parts())
    }

    /// Whether inputs lie in one buffer: there are more of them than a shader may have.
    pub(crate) fn is_joined(self) -> bool {
        self.erase || (self.bonus && self.fading == Fading::Rates)
    }

    pub(super) fn source(self) -> Vec<&'static str> {
        let inputs = match self.is_joined() {
            true => include_str!("../shaders/recur_joined.wgsl"),
            false => include_str!("../shaders/recur_apart.wgsl"),
        };
        let fading = match self.fading {
            Fading::Keys => FADING_KEYS,
            Fading::Heads => FADING_HEADS,
            Fading::Rates => FADING_RATES,
        };
        let bonus = if self.bonus { BONUS } else { NO_BONUS };
        vec![include_str!("../shaders/recur.wgsl"), inputs, fading, bonus]
    }
}

const FADING_KEYS: &str = "fn rate(i: u32) -> f32 { return 0.0; }
fn fading(row: u32, head: u32, i: u32, rate: f32) -> f32 { return fade_at(row, i); }
";
const FADING_HEADS: &str = "fn rate(i: u32) -> f32 { return 0.0; }
fn fading(row: u32, head: u32, i: u32, rate: f32) -> f32 { return fade_at(row, head); }
";
const FADING_RATES: &str = "@group(0) @binding(8) var<storage, read> fade_rates: array<f32>;
fn rate(i: u32) -> f32 { return fade_rates[i / p.rate_cols * p.rate_stride + i % p.rate_cols]; }
fn fading(row: u32, head: u32, i: u32, rate: f32) -> f32 { return exp(fade_at(row, head) * rate); }
";
const BONUS: &str = "@group(0) @binding(9) var<storage, read> present: array<f32>;
fn bonus(i: u32) -> f32 { return present[i / p.bonus_cols * p.bonus_stride + i % p.bonus_cols]; }
fn seen(now: f32, old: f32, added: f32, bonus: f32) -> f32 { return old + bonus * added; }
";
const NO_BONUS: &str = "fn bonus(i: u32) -> f32 { return 0.0; }
fn seen(now: f32, old: f32, added: f32, bonus: f32) -> f32 { return now; }
";
