//! The flags of what shape an answer has, llama.cpp's names.

use std::path::PathBuf;

use clap::Args;

/// What shape an answer has.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Shape")]
pub struct ShapeArgs {
    /// Answer with JSON that this JSON schema describes; {} is any
    #[arg(short, long, value_name = "SCHEMA")]
    pub json_schema: Option<String>,
    /// Read the schema from a file (also -jf)
    #[arg(long, value_name = "FILE")]
    pub json_schema_file: Option<PathBuf>,
    /// Answer with a text of this grammar, in llama.cpp's GBNF
    #[arg(long, value_name = "GBNF", allow_hyphen_values = true)]
    pub grammar: Option<String>,
    /// Read the grammar from a file
    #[arg(long, value_name = "FILE")]
    pub grammar_file: Option<PathBuf>,
    /// Answer with a text that this regular expression describes as a whole
    #[arg(long, value_name = "RE", allow_hyphen_values = true)]
    pub regex: Option<String>,
}
