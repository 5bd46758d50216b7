//! The command line as types: every command and every flag, and reading them. Nothing here acts on them.
//!
//! Flags carry llama.cpp's names. Variables are not written here: [`flag`] gives each flag its own.

pub mod ahead;
pub mod argv;
mod begin;
pub mod bench;
mod command;
mod compare;
pub mod daily;
pub mod device;
pub mod elsewhere;
pub mod embed;
pub mod flag;
mod from;
mod gguf;
mod hub;
pub mod imatrix;
pub mod inspect;
pub mod kwargs;
pub mod logprobs;
pub mod lora;
pub mod number;
pub mod overrides;
pub mod parse;
pub mod quantize;
#[cfg(test)]
mod reference;
pub mod sampling;
mod serve;
mod shape;
mod shared;
#[cfg(test)]
mod table;
mod taken;
pub mod target;
mod thinking;
mod variables;

pub use ahead::{PromptCacheArgs, SpeculationArgs};
pub use bench::BenchArgs;
pub use command::{
    ChatArgs, Command, ConfigArgs, ConfigWhat, DevicesArgs, PerplexityArgs, PromptArgs, RunArgs, ShowArgs,
    TemplateArgs, TokenizeArgs, Tunable,
};
pub use compare::CompareArgs;
pub use embed::{EmbedArgs, RerankArgs, VectorFormat};
pub use from::FromArgs;
pub use gguf::{GgufAction, GgufArgs};
pub use hub::{ListArgs, PullArgs, RmArgs};
pub use imatrix::ImatrixArgs;
pub use inspect::{DiagnoseArgs, DoctorArgs, LogitsArgs, TraceArgs, VerifyArgs};
pub use logprobs::LogprobsArgs;
pub use lora::LoraArgs;
pub use parse::{Line, Parsed, Rank};
pub use quantize::QuantizeArgs;
pub use serve::{BatchArgs, ServeArgs, ServedArgs};
pub use shape::ShapeArgs;
pub use shared::{CacheArgs, CacheFormat, ContextArgs, ModelArgs, OutputArgs, PerformanceArgs, WaitingArgs, When};
pub use thinking::{Think, ThinkingArgs};
