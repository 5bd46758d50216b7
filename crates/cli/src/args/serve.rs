//! The flags of `candor serve`, llama-server's names.

use std::path::PathBuf;

use clap::Args;

use super::{
    embed::VectorArgs,
    kwargs::{self, Kwargs},
    lora::LoraArgs,
    number,
    overrides::OverrideArgs,
    sampling::SamplingArgs,
    shared::{ContextArgs, ModelArgs, OutputArgs, PerformanceArgs},
};

/// `candor serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub served: ServedArgs,
    #[command(flatten)]
    pub several: SeveralArgs,
    /// The address to listen at; 0.0.0.0 is every one of this machine
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1", help_heading = "Serving")]
    pub host: String,
    /// The port; 0 takes any free one
    #[arg(long, value_name = "PORT", default_value = "8080", help_heading = "Serving")]
    #[arg(value_parser = number::whole(0..=u16::MAX))]
    pub port: u16,
    /// A key that requests must bring; several with commas between them, or the flag again
    #[arg(long, value_name = "KEY", value_delimiter = ',', hide_env_values = true, help_heading = "Serving")]
    pub api_key: Vec<String>,
    /// A name under which this server may be asked, besides localhost, --host and addresses; several with commas between them, or
    /// the flag again
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Serving")]
    pub allowed_hosts: Vec<String>,
    /// Pages in browsers that may ask, by their origin: https://chat.example, localhost for pages of this machine, * for all; several
    /// with commas between them, or the flag again
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',', help_heading = "Serving")]
    pub cors_origins: Vec<String>,
    /// Encrypt connections with the key of a file, in PEM; --ssl-cert-file has the certificate
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub ssl_key_file: Option<PathBuf>,
    /// The certificate for --ssl-key-file, and those that vouch for it, in PEM
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub ssl_cert_file: Option<PathBuf>,
    /// Print a line of JSON to stdout for each request: when, which path, the status, tokens and milliseconds, and no text of it
    #[arg(long, help_heading = "Serving")]
    pub log_jsonl: bool,
    /// Send spans of requests to a collector of OpenTelemetry: an address of OTLP over HTTP, such as http://localhost:4318/v1/traces
    #[cfg(feature = "otel")]
    #[arg(long, value_name = "URL", help_heading = "Serving")]
    pub otlp_traces_endpoint: Option<String>,
    /// Answer /metrics: how much was read and written, in Prometheus' text format
    #[arg(long, help_heading = "Serving")]
    pub metrics: bool,
    /// Answer /slots: how many answers are being written
    #[arg(long, help_heading = "Serving")]
    pub slots: bool,
    /// Keep how the last N answers came to be: /trace shows it, /diagnose replays one against formulas
    #[arg(long, value_name = "N", default_value = "0", value_parser = number::whole(0..=10_000usize), help_heading = "Serving")]
    pub traces: usize,
}

/// Which models answer, where there are several.
#[derive(Debug, Args)]
#[command(next_help_heading = "Several models")]
pub struct SeveralArgs {
    /// Serve the models of a folder instead of one: its .gguf files, and those of its folders; requests say which by its name
    #[arg(long, value_name = "PATH")]
    pub models_dir: Option<PathBuf>,
    /// Models that are loaded at once; for another one the one goes that was not used for the longest time. 0 has no limit
    #[arg(long, value_name = "N", default_value = "4", value_parser = number::whole(0..=1000usize))]
    pub models_max: usize,
    /// Load a model only where /models/load or a request's autoload=true says so
    #[arg(long)]
    pub no_models_autoload: bool,
    /// Seconds without requests until a model gives its memory back, also one that is served alone; -1 is never
    #[arg(long, value_name = "SECONDS", default_value = "-1", allow_negative_numbers = true)]
    #[arg(value_parser = number::whole(-1..=i32::MAX))]
    pub sleep_idle_seconds: i32,
}

/// `candor batch`.
#[derive(Debug, Args)]
pub struct BatchArgs {
    /// The file of requests, one in a line: {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
    #[arg(value_name = "REQUESTS")]
    pub requests: PathBuf,
    /// The file for the answers; those that are in it are not made again
    #[arg(value_name = "ANSWERS")]
    pub answers: PathBuf,
    #[command(flatten)]
    pub served: ServedArgs,
}

/// The model that answers, and how.
#[derive(Debug, Args)]
pub struct ServedArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(flatten)]
    pub lora: LoraArgs,
    /// What the model is called, instead of its file's name
    #[arg(short = 'a', long, value_name = "NAME", help_heading = "Serving")]
    pub alias: Option<String>,
    /// Answers that are written at once; the context is divided among them (also -np)
    #[arg(long, value_name = "N", default_value = "4", value_parser = number::whole(1..=256usize), help_heading = "Serving")]
    pub parallel: usize,
    /// Read every prompt from its beginning where a request does not say cache_prompt
    #[arg(long, help_heading = "Serving")]
    pub no_cache_prompt: bool,
    /// Let an answer have all of the context that others leave it, instead of an equal share (also -kvu)
    #[arg(long, help_heading = "Serving")]
    pub kv_unified: bool,
    /// Make vectors of texts instead of answers; models that are made for vectors do so without
    #[arg(long, visible_alias = "embeddings", help_heading = "Vectors")]
    pub embedding: bool,
    /// Sort documents by how well they answer a query: --embedding with --pooling rank
    #[arg(long, visible_alias = "rerank", help_heading = "Vectors")]
    pub reranking: bool,
    #[command(flatten)]
    pub vectors: VectorArgs,
    /// Use a chat template by its name in llama.cpp (chatml, llama3, gemma), or a text of Jinja, instead of the model's
    #[arg(long, value_name = "NAME", help_heading = "Prompt")]
    pub chat_template: Option<String>,
    /// Use the chat template (Jinja) of a file instead of the model's
    #[arg(long, value_name = "FILE", help_heading = "Prompt")]
    pub chat_template_file: Option<PathBuf>,
    /// Further variables that the template sees, as a JSON object: {"enable_thinking": false}
    #[arg(long, value_name = "JSON", value_parser = kwargs::parse, help_heading = "Prompt")]
    pub chat_template_kwargs: Option<Kwargs>,
    /// Most tokens of an answer where a request does not say; -1 goes on until the model ends its text or the context is full
    #[arg(short = 'n', long, value_name = "N", default_value = "-1", allow_negative_numbers = true)]
    #[arg(visible_alias = "n-predict", value_parser = number::whole(-1..=i64::MAX), help_heading = "Generation")]
    pub predict: i64,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    pub context: ContextArgs,
    #[command(flatten)]
    pub performance: PerformanceArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
