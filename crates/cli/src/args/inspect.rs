//! The flags of the commands that show, check and explain what a model computes.

use std::{fmt, ops::RangeInclusive, path::PathBuf, str::FromStr};

use clap::Args;

use super::{
    device::DeviceArgs,
    lora::LoraArgs,
    number,
    overrides::OverrideArgs,
    shared::{CacheArgs, ModelArgs, OutputArgs, PerformanceArgs, WaitingArgs},
};

/// `candor trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(flatten)]
    pub tokens: TokensArgs,
    /// Tokens to decode after the prompt, always the likeliest
    #[arg(short = 'n', long, value_name = "N", default_value = "0", help_heading = "Prompt")]
    #[arg(value_parser = number::whole(0..=usize::MAX))]
    pub steps: usize,
    #[command(flatten)]
    pub select: SelectArgs,
    /// Plant a known fault and write what an engine with it computes; can be given more than once (see `candor
    /// diagnose --list`)
    #[arg(long, value_name = "FAULT[=NUMBER]", help_heading = "Fault")]
    pub plant: Vec<String>,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[command(flatten)]
    pub performance: PerformanceArgs,
    /// The file to write (safetensors)
    #[arg(short = 'o', long = "output", value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Print a table of each value's size, range and first elements, and the entropy of attention's weights; -o can be left
    /// out then
    #[arg(long, help_heading = "Output")]
    pub stats: bool,
    /// Print the time of each operation and layer, and its share of what the machine can do, and record nothing
    #[arg(long, help_heading = "Output", conflicts_with_all = ["out", "stats", "plant", "html", "names", "layers"])]
    pub time: bool,
    /// Write one page to look at, beside the trace of -o: a map of all values, histograms, the values themselves
    #[arg(long, value_name = "FILE", help_heading = "Output", requires = "out")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What to run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Prompt")]
pub struct TokensArgs {
    /// The prompt, without a chat template; without it, --ids and -f it is read from stdin
    #[arg(short, long, allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Token ids instead of a prompt, as `candor tokenize --ids` prints them: 1,2,3
    #[arg(long, value_name = "LIST")]
    pub ids: Option<Ids>,
    /// Read the prompt from a file (`-` is stdin), less one line break at its end
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Which values to record.
#[derive(Debug, Args)]
#[command(next_help_heading = "Values")]
pub struct SelectArgs {
    /// Only these layers: 0-3,7; values that belong to no layer are recorded in any case
    #[arg(long, value_name = "LAYERS")]
    pub layers: Option<Layers>,
    /// Only values of this name, with `*` for any letters and `?` for one: l_out, Qcur-0, 'ffn_*'; can be given more
    /// than once. Attention's scores and weights (kq, kq_soft_max) are recorded only so
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    pub names: Vec<String>,
    /// Only the last token of the prompt and the decoded ones
    #[arg(long)]
    pub last_only: bool,
}

/// `candor logits`.
#[derive(Debug, Args)]
pub struct LogitsArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(flatten)]
    pub lora: LoraArgs,
    #[command(flatten)]
    pub tokens: TokensArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[command(flatten)]
    pub performance: PerformanceArgs,
    /// How many tokens to print, the likeliest first; 0 prints the whole vocabulary
    #[arg(long, value_name = "K", default_value = "10", help_heading = "Output")]
    #[arg(value_parser = number::whole(0..=usize::MAX))]
    pub top: usize,
    /// A token whose rank, logit and probability are printed too: an id, or a text that is one token; can be given more than
    /// once
    #[arg(long, value_name = "TOKEN", help_heading = "Output", allow_hyphen_values = true)]
    pub token: Vec<String>,
    /// After every token of the prompt, not only the last
    #[arg(long, help_heading = "Output")]
    pub all: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `candor diagnose`.
#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    /// The dump: a file or a folder of them
    #[arg(long, value_name = "DUMP", help_heading = "Trace")]
    pub trace: Option<PathBuf>,
    /// A dump of another engine on the same tokens, for a column beside the results
    #[arg(long = "ref", value_name = "DUMP", help_heading = "Trace")]
    pub reference: Option<PathBuf>,
    #[command(flatten)]
    pub dump: DumpArgs,
    /// What else is known of the run, as JSON: prompt, messages, rendered, prompt_ids, generated_ids, generated_text,
    /// sampling, context; checks template, tokens, sampling and stopping, also without --trace
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    pub said: Option<PathBuf>,
    /// Only say which values are wrong, and look for no fault behind them: seconds where a search takes a minute
    #[arg(long, help_heading = "Trace", conflicts_with = "html")]
    pub no_faults: bool,
    /// Write one page to look at: a map of all values, findings, histograms, values side by side
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Every value that was checked, as a table
    #[arg(long, help_heading = "Output")]
    pub all: bool,
    /// Print the report as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print the known faults and do nothing else; with a model, those that can be distinguished in it, and why others do not apply
    #[arg(long, help_heading = "Output")]
    pub list: bool,
    #[command(flatten)]
    pub waiting: WaitingArgs,
}

/// What a dump does not say of itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Trace")]
pub struct DumpArgs {
    /// The prompt that is run, without a chat template; a dump that says its tokens needs none
    #[arg(short, long, allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Token ids instead of a prompt: 1,2,3
    #[arg(long, value_name = "LIST")]
    pub ids: Option<Ids>,
    /// How many of the tokens were computed at once; the rest came one by one
    #[arg(long, value_name = "N")]
    #[arg(value_parser = number::whole(0..=usize::MAX))]
    pub prompt_tokens: Option<usize>,
    /// What the names in the dump mean, in lines `theirs = ours` or as a JSON object; {l} stands for the layer
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// Elements per row of raw floats, where the file's name does not say it
    #[arg(long, value_name = "N")]
    #[arg(value_parser = number::whole(0..=usize::MAX))]
    pub width: Option<usize>,
    /// Take a trace that says that it is of another file, too
    #[arg(long)]
    pub ignore_hash: bool,
}

/// `candor verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    /// Check less, for a start-up self-check: sampled rows, a short prompt, no hash
    #[arg(long, help_heading = "Output")]
    pub quick: bool,
    /// Print the report as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Another engine's dump to compare with, instead of Candor's own formulas: a file or a folder
    #[arg(long, value_name = "DUMP", help_heading = "Trace")]
    pub against: Option<PathBuf>,
    #[command(flatten)]
    pub dump: DumpArgs,
    /// Tokens to decode after the prompt, always the likeliest
    #[arg(short = 'n', long, value_name = "N", default_value = "2", help_heading = "Trace")]
    #[arg(value_parser = number::whole(0..=usize::MAX))]
    pub steps: usize,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[command(flatten)]
    pub place: DeviceArgs,
    #[command(flatten)]
    pub waiting: WaitingArgs,
}

/// `candor doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// Measure how likely the model finds a text (`-` is stdin), and whether a repair of a known fault makes it likelier
    #[arg(long, value_name = "FILE", help_heading = "Text")]
    pub text: Option<PathBuf>,
    /// Tokens of a window, of which all but the first quarter are scored; no more than the model's context
    #[arg(short, long, value_name = "N", default_value = "512", help_heading = "Text")]
    #[arg(value_parser = number::whole(64..=u32::MAX))]
    pub ctx_size: u32,
    /// Windows that are scored at most, from the beginning of the text
    #[arg(long, value_name = "N", default_value = "8", help_heading = "Text")]
    #[arg(value_parser = number::whole(1..=u32::MAX))]
    pub chunks: u32,
    #[command(flatten)]
    pub place: DeviceArgs,
    /// Print the report as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub waiting: WaitingArgs,
}

/// Token ids: `1,2,3`, with or without brackets around.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids(pub Vec<u32>);

/// Layers: `0-3,7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers(pub Vec<RangeInclusive<usize>>);

/// Why a list is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAList {
    expected: &'static str,
    got: String,
}

impl fmt::Display for NotAList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, got {:?}", self.expected, self.got)
    }
}

impl std::error::Error for NotAList {}

impl FromStr for Ids {
    type Err = NotAList;

    fn from_str(text: &str) -> Result<Ids, NotAList> {
        let trimmed = text.trim();
        let inner = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(trimmed);
        let words = inner.split([',', ' ', '\n']).filter(|word| !word.is_empty());
        let id = |word: &str| word.parse().map_err(|_| NotAList { expected: "token ids", got: word.to_owned() });
        words.map(id).collect::<Result<_, _>>().map(Ids)
    }
}

impl FromStr for Layers {
    type Err = NotAList;

    fn from_str(text: &str) -> Result<Layers, NotAList> {
        let range = |word: &str| {
            let wrong = || NotAList { expected: "layers such as 0-3,7", got: word.to_owned() };
            let number = |word: &str| word.trim().parse::<usize>().map_err(|_| wrong());
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let (first, last) = (number(first)?, number(last)?);
            if first <= last { Ok(first..=last) } else { Err(wrong()) }
        };
        text.split(',').map(range).collect::<Result<_, _>>().map(Layers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ids() {
        for (text, expected) in [
            ("1,2,3", Some(vec![1, 2, 3])),
            ("[1, 2, 3]\n", Some(vec![1, 2, 3])),
            ("7", Some(vec![7])),
            ("", Some(vec![])),
            ("1,x", None),
            ("-1", None),
            ("4294967296", None),
            ("[1", None),
        ] {
            assert_eq!(text.parse::<Ids>().ok(), expected.map(Ids), "{text}");
        }
    }

    #[test]
    fn lists_of_layers() {
        for (text, expected) in [
            ("0-3,7", Some(vec![0..=3, 7..=7])),
            ("2", Some(vec![2..=2])),
            ("3-1", None),
            ("", None),
            ("1-", None),
            ("a", None),
        ] {
            assert_eq!(text.parse::<Layers>().ok(), expected.map(Layers), "{text}");
        }
    }
}
