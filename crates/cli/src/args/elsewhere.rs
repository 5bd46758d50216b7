//! Flags and commands of llama.cpp and Ollama that Candor does not have, and what there is instead: a wrong name gets a true
//! hint rather than the nearest one.

/// Names that one hint holds for.
type Row = (&'static [&'static str], &'static str);

const ANSWERS: &str = "candor run answers once, candor chat holds a conversation";
/// For names of models that other programs download.
pub const DOWNLOADS: &str = "candor takes the path of a GGUF file and downloads nothing";
const GRAMMARS: &str = "candor has no grammars: a system prompt can ask for JSON";
const LAYERS: &str = "-ngl N gives whole layers to the GPU";
const LOGS: &str = "--verbose prints speeds and why an answer stopped; --progress never hides the bar";
const SERVER: &str = "candor has no server; candor chat talks with a model";
const STORE: &str = "candor keeps no models of its own: commands take the path of a GGUF file";

const FLAGS: &[Row] = &[
    (&["-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-hft", "--hf-token", "-mu", "--model-url", "-dr"], DOWNLOADS),
    (&["-fa", "--flash-attn", "-no-fa"], "attention is always computed in blocks, without its matrix: leave it out"),
    (&["--jinja", "--no-jinja"], "chat templates are always Jinja; --raw continues a text without one"),
    (&["-cnv", "--conversation", "-no-cnv", "--no-conversation", "-st", "--single-turn", "--interactive"], ANSWERS),
    (&["-if", "--interactive-first", "-i"], ANSWERS),
    (&["--host", "--port", "--api-key", "-np", "--parallel", "-cb", "--cont-batching", "--slots", "--metrics"], SERVER),
    (&["--grammar", "--grammar-file", "-j", "--json-schema", "-jf", "--json-schema-file", "--format"], GRAMMARS),
    (&["-lv", "--log-verbosity", "--log-disable", "--log-file", "--perf", "--no-perf", "--show-timings"], LOGS),
    (&["-nkvo", "--no-kv-offload", "-ot", "--override-tensor", "-cmoe", "--cpu-moe", "-ncmoe", "--n-cpu-moe"], LAYERS),
    (&["--mlock"], "weights are mapped from the file; --no-mmap reads them into memory of the process"),
    (&["--numa"], "-Cr with the processors of one socket keeps the threads there (docs/performance.md)"),
    (&["-mg", "--main-gpu"], "--device NAME chooses a GPU; `candor devices` lists them"),
    (&["-sm", "--split-mode"], "several GPUs share a model by layers, as -ts says"),
    (&["-bf", "--binary-file"], "-f FILE reads the prompt"),
    (&["--color", "-co"], "output is colored where it is a terminal and NO_COLOR is not set: leave it out"),
    (&["--system"], "--system-prompt TEXT is what the model is told first"),
    (&["--num-ctx", "--num_ctx"], "-c N is the context"),
    (&["--keepalive"], "each command loads its model and ends with it; the system keeps the file's pages"),
    (&["--warmup", "--no-warmup"], "only candor bench warms up"),
    (&["--mmproj", "--image", "--audio"], "candor reads text alone"),
    (&["--embedding", "--embeddings"], "candor embed makes vectors of texts"),
];

const COMMANDS: &[Row] = &[
    (&["serve", "server"], SERVER),
    (&["pull", "push", "create", "cp", "rm", "ls", "list", "ps", "stop"], STORE),
    (&["generate", "cli"], ANSWERS),
    (&["help"], "candor --help lists the commands, candor COMMAND --help says what one takes"),
    (&["version"], "candor --version"),
    (&["quantize"], "candor makes no model files; llama.cpp's llama-quantize does"),
];

/// What there is instead of a flag, written as it is typed.
pub fn flag(typed: &str) -> Option<&'static str> {
    find(FLAGS, typed)
}

/// What there is instead of a command.
pub fn command(typed: &str) -> Option<&'static str> {
    find(COMMANDS, typed)
}

/// A flag of several letters after one dash, which would be read as one letter and its value.
pub fn is_single_dash(typed: &str) -> bool {
    typed.len() > 2 && !typed.starts_with("--") && flag(typed).is_some()
}

fn find(table: &[Row], typed: &str) -> Option<&'static str> {
    table.iter().find(|(names, _)| names.contains(&typed)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_there_once_and_are_none_of_ours() {
        let command = crate::args::parse::command();
        let subcommands: Vec<_> = command.get_subcommands().collect();
        let run = ["run", "chat"].map(|name| command.find_subcommand(name).unwrap());
        let mut ours: HashSet<String> = subcommands.iter().map(|sub| sub.get_name().to_owned()).collect();
        for arg in run.into_iter().flat_map(clap::Command::get_arguments) {
            ours.extend(arg.get_long_and_visible_aliases().unwrap_or_default().iter().map(|long| format!("--{long}")));
            ours.extend(arg.get_short().map(|short| format!("-{short}")));
        }
        for name in FLAGS.iter().chain(COMMANDS).flat_map(|(names, _)| *names) {
            assert!(ours.insert((*name).to_owned()), "{name} is there twice, or is ours");
        }
    }
}
