//! The commands, and their flags but those of devices, sampling, vectors, benchmarks and inspection.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::{
    ahead::{PromptCacheArgs, SpeculationArgs},
    begin::BeginArgs,
    bench::BenchArgs,
    compare::CompareArgs,
    daily,
    embed::{EmbedArgs, RerankArgs},
    gguf::GgufArgs,
    hub::{ListArgs, PullArgs, RmArgs},
    imatrix::ImatrixArgs,
    inspect::{DiagnoseArgs, DoctorArgs, LogitsArgs, TraceArgs, VerifyArgs},
    kwargs::{self, Kwargs},
    logprobs::LogprobsArgs,
    lora::LoraArgs,
    number,
    overrides::{MetadataArgs, OverrideArgs},
    quantize::QuantizeArgs,
    sampling::SamplingArgs,
    serve::{BatchArgs, ServeArgs},
    shape::ShapeArgs,
    shared::{CacheArgs, ContextArgs, ModelArgs, OutputArgs, PerformanceArgs},
    thinking::ThinkingArgs,
};

/// What every help text ends with.
const SETTINGS_NOTE: &str = "Each flag can also be set by a variable (--top-k: CANDOR_TOP_K) or in the configuration file \
     (top-k = 20; see `candor config path`). A flag wins over a variable, a variable over the file.";

/// Runs language models from GGUF files
#[derive(Debug, Parser)]
#[command(name = "candor", version, max_term_width = 110, arg_required_else_help = true)]
#[command(subcommand_required = true, after_help = daily::listed(daily::FIRST_STEPS))]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer a prompt, or continue a text
    #[command(after_help = SETTINGS_NOTE)]
    Run(RunArgs),
    /// Talk with a model
    #[command(after_help = SETTINGS_NOTE)]
    Chat(ChatArgs),
    /// Answer over HTTP, for clients of OpenAI's and llama.cpp's servers
    #[command(after_help = SETTINGS_NOTE)]
    Serve(ServeArgs),
    /// Answer a file of requests, in OpenAI's batch format
    #[command(after_help = SETTINGS_NOTE)]
    Batch(BatchArgs),
    /// Fetch a model by its name
    Pull(PullArgs),
    /// List the models on this machine
    List(ListArgs),
    /// Remove a model from this machine
    Rm(RmArgs),
    /// Show what is in a model file and the memory that it needs
    Show(ShowArgs),
    /// Print the token ids of a text
    Tokenize(TokenizeArgs),
    /// Measure how well a model predicts a text
    #[command(after_help = SETTINGS_NOTE)]
    Perplexity(PerplexityArgs),
    /// Measure over a text which columns of a model's matrices count
    #[command(after_help = SETTINGS_NOTE)]
    Imatrix(ImatrixArgs),
    /// Make a smaller file of a model's weights
    #[command(after_help = SETTINGS_NOTE)]
    Quantize(QuantizeArgs),
    /// Say what differs between two files of a model, and which tensor costs most
    #[command(after_help = SETTINGS_NOTE)]
    Compare(CompareArgs),
    /// Write a file with other metadata or names, fewer tensors, or in parts
    #[command(after_help = SETTINGS_NOTE)]
    Gguf(GgufArgs),
    /// Print vectors of texts
    #[command(after_help = SETTINGS_NOTE)]
    Embed(EmbedArgs),
    /// Sort documents by how well they answer a query
    #[command(after_help = SETTINGS_NOTE)]
    Rerank(RerankArgs),
    /// Measure how fast a model reads prompts and writes tokens
    #[command(after_help = SETTINGS_NOTE)]
    Bench(BenchArgs),
    /// Record the values that a model computes on its way to an answer
    #[command(after_help = SETTINGS_NOTE)]
    Trace(TraceArgs),
    /// Print the likeliest next tokens with their logits and probabilities
    #[command(after_help = SETTINGS_NOTE)]
    Logits(LogitsArgs),
    /// Find the first wrong operation in another engine's dump, and the fault behind it
    Diagnose(DiagnoseArgs),
    /// Prove that this machine computes a model rightly
    Verify(VerifyArgs),
    /// Examine a model file
    Doctor(DoctorArgs),
    /// List the devices that a model can run on
    Devices(DevicesArgs),
    /// Print the settings in effect and where they come from
    Config(ConfigArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print a manual page
    Man {
        /// The command that it is about; candor itself if left out
        command: Option<String>,
    },
    /// Print the version
    Version,
}

/// `candor run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(flatten)]
    pub lora: LoraArgs,
    #[command(flatten)]
    pub prompt: PromptArgs,
    #[command(flatten)]
    pub template: TemplateArgs,
    #[command(flatten)]
    pub tunable: Tunable,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub context: ContextArgs,
    #[command(flatten)]
    pub prompt_cache: PromptCacheArgs,
    #[command(flatten)]
    pub speculation: SpeculationArgs,
    #[command(flatten)]
    pub performance: PerformanceArgs,
    /// Print the prompt as the model sees it and its tokens to stderr
    #[arg(long, help_heading = "Output")]
    pub verbose_prompt: bool,
    /// Print special tokens of the answer too, such as the one that ends it (also -sp)
    #[arg(long, help_heading = "Output")]
    pub special: bool,
    #[command(flatten)]
    pub logprobs: LogprobsArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl RunArgs {
    /// The same as a conversation.
    pub fn into_chat(self) -> ChatArgs {
        let RunArgs {
            model, overrides, lora, template, tunable, shape, context, speculation, performance, output, ..
        } = self;
        let begin = BeginArgs::default();
        ChatArgs { model, overrides, lora, begin, template, tunable, shape, context, speculation, performance, output }
    }
}

/// `candor chat`.
#[derive(Debug, Args)]
pub struct ChatArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(flatten)]
    pub lora: LoraArgs,
    #[command(flatten)]
    pub begin: BeginArgs,
    #[command(flatten)]
    pub template: TemplateArgs,
    #[command(flatten)]
    pub tunable: Tunable,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub context: ContextArgs,
    #[command(flatten)]
    pub speculation: SpeculationArgs,
    #[command(flatten)]
    pub performance: PerformanceArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What to answer or continue.
#[derive(Debug, Args)]
#[command(next_help_heading = "Prompt")]
pub struct PromptArgs {
    /// The prompt, as the argument of -p
    #[arg(value_name = "PROMPT")]
    pub words: Option<String>,
    /// The prompt; what comes through a pipe follows it. Without a prompt and -f it is all that comes through a pipe
    #[arg(short, long, allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Read the prompt from a file (`-` is stdin), less one line break at its end
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Continue the prompt as it is, without the model's chat template
    #[arg(long, visible_alias = "no-chat-template")]
    pub raw: bool,
}

/// How a conversation is put.
#[derive(Debug, Args)]
#[command(next_help_heading = "Prompt")]
pub struct TemplateArgs {
    /// What the model reads before the conversation (also -sys)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub system_prompt: Option<String>,
    /// Read that from a file (also -sysf)
    #[arg(long, value_name = "FILE")]
    pub system_prompt_file: Option<PathBuf>,
    /// Use a chat template by its name in llama.cpp (chatml, llama3, gemma), or a text of Jinja, instead of the model's
    #[arg(long, value_name = "NAME")]
    pub chat_template: Option<String>,
    /// Use the chat template (Jinja) of a file instead of the model's
    #[arg(long, value_name = "FILE")]
    pub chat_template_file: Option<PathBuf>,
    /// Further variables that the template sees, as a JSON object: {"enable_thinking": false}
    #[arg(long, value_name = "JSON", value_parser = kwargs::parse)]
    pub chat_template_kwargs: Option<Kwargs>,
    /// Print answers as the model writes them, with the marks of reasoning and tool calls
    #[arg(long)]
    pub skip_chat_parsing: bool,
    /// Read \n, \t, \r, \\, \", \' and \x41 in the texts of -p, -sys, -r and --dry-sequence-breaker
    #[arg(short, long)]
    pub escape: bool,
}

/// What can be changed between two answers.
#[derive(Clone, Debug, Args)]
pub struct Tunable {
    #[command(flatten)]
    pub generation: GenerationArgs,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    pub thinking: ThinkingArgs,
}

/// When to stop.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Generation")]
pub struct GenerationArgs {
    /// Most tokens to generate; -1 goes on until the model ends its text or the context is full, -2 does so without
    /// --context-shift
    #[arg(short = 'n', long, value_name = "N", default_value = "-1", allow_negative_numbers = true)]
    #[arg(visible_aliases = ["n-predict", "max-tokens"], alias = "num-predict")]
    #[arg(value_parser = number::whole(-2..=i64::MAX))]
    pub predict: i64,
    /// Do not let the model end its text
    #[arg(long)]
    pub ignore_eos: bool,
    /// Stop where this text comes, and leave it out; can be given more than once
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, alias = "stop")]
    pub reverse_prompt: Vec<String>,
    /// When the context of a conversation is full, leave out its oldest turns; off makes that an error
    #[arg(long, value_name = "on|off", default_value = "on", action = ArgAction::Set, value_parser = number::on_or_off)]
    pub truncate: bool,
    /// When the context is full, forget the older half and go on
    #[arg(long)]
    pub context_shift: bool,
    /// First tokens that --context-shift never forgets; -1 keeps the whole prompt
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true)]
    #[arg(value_parser = number::whole(-1..=i64::MAX))]
    pub keep: i64,
}

/// `candor show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    /// Only the metadata
    #[arg(long)]
    pub metadata: bool,
    /// Only the tensors
    #[arg(long)]
    pub tensors: bool,
    /// Only the values of this tensor: statistics and the first ones; with `*` for any letters and `?` for one; can be given
    /// more than once
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub tensor: Vec<String>,
    /// How many of a tensor's first values to print
    #[arg(long, value_name = "N", default_value = "5", value_parser = number::whole(0..=usize::MAX))]
    pub head: usize,
    /// Do not shorten long values
    #[arg(long)]
    pub full: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Tokens of context to count the memory for; 0 takes the model's own
    #[arg(short, long, value_name = "N", default_value = "0", value_parser = number::whole(0..=u32::MAX))]
    pub ctx_size: u32,
}

/// `candor tokenize`.
#[derive(Debug, Args)]
pub struct TokenizeArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub metadata: MetadataArgs,
    /// The text; without it and -f it is read from stdin
    #[arg(short, long, allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Read the text from a file (`-` is stdin)
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Print the ids alone: [1, 2, 3]
    #[arg(long)]
    pub ids: bool,
    /// Do not add the token that begins a text
    #[arg(long)]
    pub no_bos: bool,
    /// Take the names of special tokens as plain text
    #[arg(long)]
    pub no_parse_special: bool,
}

/// `candor perplexity`.
#[derive(Debug, Args)]
pub struct PerplexityArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(flatten)]
    pub lora: LoraArgs,
    /// The text (`-` is stdin), less one line break at its end
    #[arg(short, long, value_name = "FILE", help_heading = "Prompt")]
    pub file: Option<PathBuf>,
    /// Tokens of a window, of which the second half is scored
    #[arg(short, long, value_name = "N", default_value = "512", help_heading = "Context")]
    #[arg(value_parser = number::whole(4..=u32::MAX))]
    pub ctx_size: u32,
    /// Windows that are scored at most, from the beginning of the text
    #[arg(long, value_name = "N", help_heading = "Context", value_parser = number::whole(1..=u32::MAX))]
    pub chunks: Option<u32>,
    #[command(flatten)]
    pub divergence: DivergenceArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[command(flatten)]
    pub performance: PerformanceArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How `candor perplexity` compares two models.
#[derive(Debug, Args)]
#[command(next_help_heading = "Divergence")]
pub struct DivergenceArgs {
    /// Measure how far the model's probabilities are from those of the base
    #[arg(long, requires = "kl_divergence_base")]
    pub kl_divergence: bool,
    /// The base: another model's GGUF file, or a file of its logits; without `--kl-divergence` such a file is written
    #[arg(long, value_name = "FILE", visible_alias = "save-all-logits")]
    pub kl_divergence_base: Option<PathBuf>,
    /// Print the divergence as JSON
    #[arg(long, requires = "kl_divergence")]
    pub json: bool,
}

/// `candor devices`.
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `candor config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// The settings that `candor run` would have, or the path of the configuration file
    #[arg(default_value = "show")]
    pub what: ConfigWhat,
}

/// What `candor config` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConfigWhat {
    // Every setting of `candor run` with its value and where it comes from.
    Show,
    // Where the configuration file is looked for.
    Path,
}
