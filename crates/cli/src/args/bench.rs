//! The flags of `candor bench`, which are llama-bench's, and the lists and ranges that they take.

use std::{fmt, path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum};

use super::{
    device::{BatchingArgs, DeviceName, Layers},
    from::FromArgs,
    lora::LoraArgs,
    number,
    overrides::OverrideArgs,
    shared::{CacheFormat, When},
};

/// `candor bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Model files (GGUF; of a split model any one file), or names as candor pull takes them; the built-in model if left out
    #[arg(value_name = "MODEL")]
    pub path: Vec<PathBuf>,
    /// A model file, as the argument; can be given more than once
    #[arg(short = 'm', long, value_name = "MODEL", help_heading = "Model")]
    pub model: Vec<PathBuf>,
    #[command(flatten)]
    pub from: FromArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(flatten)]
    pub lora: LoraArgs,
    #[command(flatten)]
    pub tests: TestArgs,
    #[command(flatten)]
    pub setups: SetupArgs,
    #[command(flatten)]
    pub batching: BatchingArgs,
    #[command(flatten)]
    pub devices: DeviceLists,
    /// Read the weights into memory instead of mapping the file
    #[arg(long, help_heading = "Performance")]
    pub no_mmap: bool,
    /// Ask for huge pages for the cache and buffers, and for weights that are read (Linux)
    #[arg(long, help_heading = "Performance")]
    pub huge_pages: bool,
    /// How often each test is run
    #[arg(short, long, value_name = "N", default_value = "5", help_heading = "Tests")]
    #[arg(value_parser = number::whole::<u32>(1..=100_000))]
    pub repetitions: u32,
    /// Measure from the first run on, without one before that does not count
    #[arg(long, help_heading = "Tests")]
    pub no_warmup: bool,
    /// Below the table, the time of each operation and layer of every test, and its share of what the machine can do; of a GPU, of
    /// each kernel
    #[arg(long, help_heading = "Output")]
    pub ops: bool,
    /// What to print: a Markdown table, JSON, JSON lines or comma-separated values
    #[arg(short, long, value_name = "FORMAT", default_value = "md", help_heading = "Output")]
    pub output: BenchFormat,
    /// Say on stderr which test runs: auto does where that is a terminal
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub progress: When,
}

/// What is measured.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tests")]
pub struct TestArgs {
    /// Tokens of the prompts to measure; 0 measures none
    #[arg(short = 'p', long, value_name = "LIST", default_value = "512")]
    pub n_prompt: Vec<Counts>,
    /// Tokens to generate one by one; 0 measures none
    #[arg(short = 'n', long, value_name = "LIST", default_value = "128")]
    pub n_gen: Vec<Counts>,
    /// A prompt and tokens after it, measured together (also -pg); can be given more than once
    #[arg(long, value_name = "PROMPT,GEN")]
    pub n_prompt_gen: Vec<PromptGen>,
    /// Tokens that the cache holds before a test begins
    #[arg(short = 'd', long, value_name = "LIST", default_value = "0")]
    pub n_depth: Vec<Counts>,
    /// Sequences that are generated at once, a token of each in every pass; prompts are measured alone
    #[arg(short = 'B', long, value_name = "LIST", default_value = "1")]
    pub n_parallel: Vec<Parallel>,
    /// Let sequences share what precedes their own tokens: it is computed once (also -pps)
    #[arg(long)]
    pub prompt_shared: bool,
}

/// How it is measured: each test runs with every combination.
#[derive(Debug, Args)]
#[command(next_help_heading = "Performance")]
pub struct SetupArgs {
    /// Most tokens of a prompt handed over at once
    #[arg(short, long, value_name = "LIST", default_value = "2048")]
    pub batch_size: Vec<Positive>,
    /// Most tokens of a prompt computed at once (also -ub)
    #[arg(long, value_name = "LIST", default_value = "512")]
    pub ubatch_size: Vec<Positive>,
    /// Formats of cached keys (also -ctk)
    #[arg(long, value_name = "FORMATS", default_value = "f16", value_delimiter = ',')]
    pub cache_type_k: Vec<CacheFormat>,
    /// Formats of cached values (also -ctv)
    #[arg(long, value_name = "FORMATS", default_value = "f16", value_delimiter = ',')]
    pub cache_type_v: Vec<CacheFormat>,
    /// Threads; 0 takes one per physical core
    #[arg(short, long, value_name = "LIST", default_value = "0")]
    pub threads: Vec<Threads>,
}

/// Where it is measured: all else is done on each device with each number of layers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Performance")]
pub struct DeviceLists {
    /// Where to compute (also -dev), as candor run takes it; can be given more than once
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub device: Vec<DeviceName>,
    /// Layers that the GPU takes (also -ngl): numbers, auto or all
    #[arg(long, value_name = "LIST", default_value = "auto", visible_alias = "n-gpu-layers", value_delimiter = ',')]
    pub gpu_layers: Vec<Layers>,
}

/// What `candor bench` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchFormat {
    // A Markdown table.
    Md,
    // A JSON array, an object per test.
    Json,
    // An object per line.
    Jsonl,
    // Comma-separated values with a header.
    Csv,
}

/// Most numbers that one list may stand for.
const MOST: usize = 4096;

/// Largest number of a list: positions are 32 bits, and a prompt, tokens after it and a depth add up.
const LARGEST: u32 = 1 << 28;

/// Numbers as llama-bench takes them: `1,2`, `1-4`, `8-64+8`, `8-64*2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts(pub Vec<u32>);

/// [`Counts`] without 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positive(pub Vec<u32>);

/// [`Counts`] of sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parallel(pub Vec<u32>);

/// [`Counts`] of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threads(pub Vec<u32>);

/// Tokens of a prompt and tokens after it: `512,128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptGen {
    pub prompt: u32,
    pub generated: u32,
}

/// Why a text cannot be read as one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCounts {
    /// Neither a number nor a range.
    Word(String),
    /// A range that ends before it begins, or never.
    Range(String),
    /// A number that is too small or too large.
    Limit { least: u32, most: u32, got: u64 },
    /// More numbers than anyone means.
    TooMany,
    /// Not two numbers.
    Pair(String),
}

impl fmt::Display for NotCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotCounts::Word(got) => write!(f, "expected numbers or ranges such as 1,2 or 8-64*2, got {got:?}"),
            NotCounts::Range(got) => {
                write!(f, "expected a range that rises, such as 1-4, 8-64+8 or 8-64*2, got {got:?}")
            }
            NotCounts::Limit { least, most, got } => write!(f, "expected numbers from {least} to {most}, got {got}"),
            NotCounts::TooMany => write!(f, "expected at most {MOST} numbers, got more"),
            NotCounts::Pair(got) => {
                write!(f, "expected tokens of a prompt and tokens after it, such as 512,128, got {got:?}")
            }
        }
    }
}

impl std::error::Error for NotCounts {}

impl FromStr for Counts {
    type Err = NotCounts;

    fn from_str(text: &str) -> Result<Counts, NotCounts> {
        numbers(text, 0, LARGEST).map(Counts)
    }
}

impl FromStr for Positive {
    type Err = NotCounts;

    fn from_str(text: &str) -> Result<Positive, NotCounts> {
        numbers(text, 1, LARGEST).map(Positive)
    }
}

impl FromStr for Parallel {
    type Err = NotCounts;

    fn from_str(text: &str) -> Result<Parallel, NotCounts> {
        numbers(text, 1, 4096).map(Parallel)
    }
}

impl FromStr for Threads {
    type Err = NotCounts;

    fn from_str(text: &str) -> Result<Threads, NotCounts> {
        numbers(text, 0, 1024).map(Threads)
    }
}

impl FromStr for PromptGen {
    type Err = NotCounts;

    fn from_str(text: &str) -> Result<PromptGen, NotCounts> {
        let wrong = || NotCounts::Pair(text.to_owned());
        let (prompt, generated) = text.split_once(',').ok_or_else(wrong)?;
        let number = |word: &str| match word.trim().parse() {
            Ok(number @ 1..=LARGEST) => Ok(number),
            _ => Err(wrong()),
        };
        Ok(PromptGen { prompt: number(prompt)?, generated: number(generated)? })
    }
}

/// The numbers that a list stands for.
fn numbers(text: &str, least: u32, most: u32) -> Result<Vec<u32>, NotCounts> {
    let mut all = Vec::new();
    for word in text.split(',') {
        let (first, last, next) = range(word.trim())?;
        let mut number = first;
        while number <= last {
            match u32::try_from(number) {
                Ok(number) if (least..=most).contains(&number) => all.push(number),
                _ => return Err(NotCounts::Limit { least, most, got: number }),
            }
            if all.len() > MOST {
                return Err(NotCounts::TooMany);
            }
            number = next.after(number);
        }
    }
    Ok(all)
}

/// How a range goes on.
enum Next {
    Plus(u64),
    Times(u64),
}

impl Next {
    fn after(&self, number: u64) -> u64 {
        match self {
            Next::Plus(step) => number.saturating_add(*step),
            Next::Times(factor) => number.saturating_mul(*factor),
        }
    }
}

/// First and last number of `4`, `1-4`, `8-64+8` or `8-64*2`, and the way between.
fn range(word: &str) -> Result<(u64, u64, Next), NotCounts> {
    let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse::<u64>().map_err(|_| NotCounts::Word(word.to_owned())),
        false => Err(NotCounts::Word(word.to_owned())),
    };
    let Some((first, rest)) = word.split_once('-') else {
        let only = number(word)?;
        return Ok((only, only, Next::Plus(1)));
    };
    let (last, next) = if let Some((last, step)) = rest.split_once('+') {
        (last, Next::Plus(number(step)?))
    } else if let Some((last, factor)) = rest.split_once('*') {
        (last, Next::Times(number(factor)?))
    } else {
        (rest, Next::Plus(1))
    };
    let (first, last) = (number(first)?, number(last)?);
    match first <= last && next.after(first) > first {
        true => Ok((first, last, next)),
        false => Err(NotCounts::Range(word.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        for (text, expected) in [
            ("512", vec![512]),
            ("0", vec![0]),
            ("1,2", vec![1, 2]),
            ("1-4", vec![1, 2, 3, 4]),
            ("8-64*2", vec![8, 16, 32, 64]),
            ("8-63*2", vec![8, 16, 32]),
            ("10-30+10,7", vec![10, 20, 30, 7]),
            ("3-3", vec![3]),
            (" 1, 2 ", vec![1, 2]),
        ] {
            assert_eq!(text.parse(), Ok(Counts(expected)), "{text}");
        }
    }

    #[test]
    fn what_is_no_range_is_named() {
        for (text, expected) in [
            ("", "expected numbers or ranges such as 1,2 or 8-64*2, got \"\""),
            ("1,,2", "expected numbers or ranges such as 1,2 or 8-64*2, got \"\""),
            ("x", "expected numbers or ranges such as 1,2 or 8-64*2, got \"x\""),
            ("-5", "expected numbers or ranges such as 1,2 or 8-64*2, got \"-5\""),
            ("1-2-3", "expected numbers or ranges such as 1,2 or 8-64*2, got \"1-2-3\""),
            ("+5", "expected numbers or ranges such as 1,2 or 8-64*2, got \"+5\""),
            ("4-1", "expected a range that rises, such as 1-4, 8-64+8 or 8-64*2, got \"4-1\""),
            ("1-8+0", "expected a range that rises, such as 1-4, 8-64+8 or 8-64*2, got \"1-8+0\""),
            ("1-8*1", "expected a range that rises, such as 1-4, 8-64+8 or 8-64*2, got \"1-8*1\""),
            ("0-8*2", "expected a range that rises, such as 1-4, 8-64+8 or 8-64*2, got \"0-8*2\""),
            ("9999999999", "expected numbers from 0 to 268435456, got 9999999999"),
            ("1-100000", "expected at most 4096 numbers, got more"),
        ] {
            assert_eq!(text.parse::<Counts>().unwrap_err().to_string(), expected, "{text:?}");
        }
        assert_eq!("0".parse::<Positive>().unwrap_err().to_string(), "expected numbers from 1 to 268435456, got 0");
        assert_eq!("2000".parse::<Threads>().unwrap_err().to_string(), "expected numbers from 0 to 1024, got 2000");
    }

    #[test]
    fn pairs() {
        assert_eq!("512,128".parse(), Ok(PromptGen { prompt: 512, generated: 128 }));
        for text in ["512", "512,", "512,0", "0,128", "1,2,3", "a,b", "1-2,3"] {
            let error = text.parse::<PromptGen>().unwrap_err().to_string();
            assert!(error.starts_with("expected tokens of a prompt and tokens after it"), "{text}: {error}");
        }
    }
}
