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
const DRAFT: &str =
    "the draft model runs where the model runs; --draft-max, --draft-min and --draft-p-min bound its guesses";
const KEPT: &str = "--prompt-cache FILE keeps a computed prompt";
const LOOKUP: &str = "--prompt-lookup guesses tokens from the text itself";
const PROCESSORS: &str = "-Cr LO-HI keeps all threads to a range of processors";
const ROTARY: &str = "positions are rotated as the file's metadata says";
const TEXT: &str = "candor reads text alone";
const THINKING: &str = "--think=false turns thinking off where the template can, --hide-thinking hides it";
const SERVER: &str = "candor has no server; candor chat talks with a model";
const STORE: &str = "candor keeps no models of its own: commands take the path of a GGUF file";

const FLAGS: &[Row] = &[
    (&["-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-hft", "--hf-token", "-mu", "--model-url"], DOWNLOADS),
    (
        &["-dr", "--docker-repo", "-cl", "--cache-list", "--spec-draft-hf", "-hfd", "-hfrd", "--hf-repo-draft"],
        DOWNLOADS,
    ),
    (&["--gpt-oss-20b-default", "--gpt-oss-120b-default", "--spec-default"], DOWNLOADS),
    (&["--vision-gemma-4b-default", "--vision-gemma-12b-default"], DOWNLOADS),
    (&["-no-fa"], "attention is always computed in blocks, without its matrix: leave it out"),
    (&["--no-jinja"], "chat templates are always Jinja; --raw continues a text without one"),
    (&["-cnv", "--conversation", "-st", "--single-turn", "--interactive"], ANSWERS),
    (&["-if", "--interactive-first", "-i"], ANSWERS),
    (&["--host", "--port", "--api-key", "-np", "--parallel", "-cb", "--cont-batching", "--slots", "--metrics"], SERVER),
    (&["--server-base"], SERVER),
    (&["--rpc"], "candor computes on this machine alone"),
    (&["--grammar", "--grammar-file", "-j", "--json-schema", "-jf", "--json-schema-file", "--format"], GRAMMARS),
    (&["--log-file", "--perf", "--show-timings", "--log-jsonl", "--no-log-jsonl", "--log-prompts-dir"], LOGS),
    (&["-ptc", "--print-token-count", "--log-verbose"], LOGS),
    (&["--display-prompt"], "the answer alone is printed; --verbose-prompt prints the prompt to stderr"),
    (&["-nkvo", "--no-kv-offload", "-ot", "--override-tensor", "-cmoe", "--cpu-moe", "-ncmoe", "--n-cpu-moe"], LAYERS),
    (&["-ncffn", "--n-cpu-ffn", "--no-host", "--op-offload", "--no-op-offload"], LAYERS),
    (
        &["-fitt", "--fit-target", "-fitc", "--fit-ctx", "-fit", "--fit"],
        "--gpu-memory SIZE bounds what -ngl auto takes",
    ),
    (&["--numa"], "-Cr with the processors of one socket keeps the threads there (docs/performance.md)"),
    (&["-C", "--cpu-mask", "-Cb", "--cpu-mask-batch", "-Crb", "--cpu-range-batch", "--cpu-strict-batch"], PROCESSORS),
    (&["-mg", "--main-gpu"], "--device NAME chooses a GPU; `candor devices` lists them"),
    (&["--list-devices"], "candor devices lists them"),
    (&["-sm", "--split-mode"], "several GPUs share a model by layers, as -ts says"),
    (
        &["-lm", "--load-mode", "-lzm", "--lazy-mode"],
        "weights are mapped from the file; --no-mmap reads them into memory",
    ),
    (&["--check-tensors"], "candor doctor FILE examines a file"),
    (&["--override-kv"], "the file's metadata holds; candor show prints it"),
    (&["--rope-scaling", "--rope-scale", "--rope-freq-base", "--rope-freq-scale", "--yarn-orig-ctx"], ROTARY),
    (&["--yarn-ext-factor", "--yarn-attn-factor", "--yarn-beta-slow", "--yarn-beta-fast"], ROTARY),
    (&["-gan", "--grp-attn-n", "-gaw", "--grp-attn-w"], ROTARY),
    (&["--swa-full"], "layers with a window keep their window alone"),
    (&["-ctxcp", "--ctx-checkpoints", "--swa-checkpoints", "-cram", "--cache-ram"], KEPT),
    (&["-bf", "--binary-file"], "-f FILE reads the prompt"),
    (&["-o", "--output", "--output-file"], "answers go to stdout: candor run MODEL -p TEXT > FILE"),
    (&["--color", "-co"], "output is colored where it is a terminal and NO_COLOR is not set: leave it out"),
    (&["--log-colors"], LOGS),
    (&["-sp", "--special"], "special tokens are not printed; candor tokenize shows those of a text"),
    (&["-mli", "--multiline-input"], "in candor chat \"\"\" begins and ends a text of several lines"),
    (&["--in-prefix-bos", "--in-prefix", "--in-suffix"], "the chat template says what stands around a message"),
    (&["--reasoning-format"], "auto tells reasoning apart, none (or --skip-chat-parsing) prints its marks"),
    (&["-rea", "--reasoning", "--reasoning-effort", "--reasoning-budget", "--reasoning-budget-message"], THINKING),
    (
        &["--reasoning-preserve", "--no-reasoning-preserve"],
        "the template decides; --chat-template-kwargs sets what it reads for that",
    ),
    (&["--adaptive-target", "--adaptive-decay"], "--mirostat aims at a surprise"),
    (
        &["--control-vector", "--control-vector-scaled", "--control-vector-layer-range"],
        "--lora changes how a model answers",
    ),
    (&["--system"], "--system-prompt TEXT is what the model is told first"),
    (&["--num-ctx", "--num_ctx"], "-c N is the context"),
    (&["--keepalive"], "each command loads its model and ends with it; the system keeps the file's pages"),
    (&["--mmproj", "-mm", "-mmu", "--mmproj-url", "--mmproj-auto", "--image", "--audio", "--video"], TEXT),
    (&["--mmproj-offload", "--no-mmproj-offload", "--image-min-tokens", "--image-max-tokens"], TEXT),
    (&["--video-fps", "--video-timestamp-interval", "--video-ffmpeg-dir"], TEXT),
    (&["--embedding", "--embeddings"], "candor embed makes vectors of texts"),
    (&["--completion-bash"], "candor completions bash prints a script"),
    (&["--usage"], "candor run --help"),
    (&["--spec-draft-threads", "-td", "--threads-draft", "--spec-draft-threads-batch", "-tbd"], DRAFT),
    (&["--threads-batch-draft", "--spec-draft-cpu-mask", "-Cd", "--cpu-mask-draft", "--spec-draft-cpu-range"], DRAFT),
    (&["-Crd", "--cpu-range-draft", "--spec-draft-cpu-strict", "--cpu-strict-draft", "--spec-draft-prio"], DRAFT),
    (&["--prio-draft", "--spec-draft-poll", "--poll-draft", "--spec-draft-cpu-mask-batch", "-Cbd"], DRAFT),
    (&["--cpu-mask-batch-draft", "--spec-draft-cpu-strict-batch", "--cpu-strict-batch-draft"], DRAFT),
    (&["--spec-draft-prio-batch", "--prio-batch-draft", "--spec-draft-poll-batch", "--poll-batch-draft"], DRAFT),
    (&["--spec-draft-type-k", "-ctkd", "--cache-type-k-draft", "--spec-draft-type-v", "-ctvd"], DRAFT),
    (&["--cache-type-v-draft", "--spec-draft-override-tensor", "-otd", "--override-tensor-draft"], DRAFT),
    (&["--spec-draft-cpu-moe", "-cmoed", "--cpu-moe-draft", "--spec-draft-n-cpu-moe", "--spec-draft-ncmoe"], DRAFT),
    (&["-ncmoed", "--n-cpu-moe-draft", "--spec-draft-p-split", "--draft-p-split"], DRAFT),
    (&["--spec-draft-backend-sampling", "--no-spec-draft-backend-sampling", "--spec-draft-sampling"], DRAFT),
    (&["--spec-draft-device", "-devd", "--device-draft", "--spec-draft-ngl", "-ngld", "--gpu-layers-draft"], DRAFT),
    (&["--n-gpu-layers-draft", "--spec-synth-len", "--spec-synth-rates"], DRAFT),
    (&["--spec-type", "--spec-ngram-mod-n-min", "--spec-ngram-mod-n-max", "--spec-ngram-mod-n-match"], LOOKUP),
    (&["--spec-ngram-simple-size-n", "--spec-ngram-simple-size-m", "--spec-ngram-simple-min-hits"], LOOKUP),
    (&["--spec-ngram-map-k-size-n", "--spec-ngram-map-k-size-m", "--spec-ngram-map-k-min-hits"], LOOKUP),
    (&["--spec-ngram-map-k4v-size-n", "--spec-ngram-map-k4v-size-m", "--spec-ngram-map-k4v-min-hits"], LOOKUP),
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
    use std::{collections::HashSet, ffi::OsString};

    use super::*;
    use crate::args::{argv, flag::names, taken};

    /// `goldens/llama_cpp_flags.txt` has every flag of llama-cli and llama-completion.
    #[test]
    fn no_flag_of_llama_cpp_is_unknown() {
        let command = crate::args::parse::command();
        let subs = ["run", "chat"].map(|name| command.find_subcommand(name).unwrap());
        let longs: Vec<String> =
            subs.into_iter().flat_map(clap::Command::get_arguments).filter_map(names).flatten().collect();
        let shorts: Vec<char> =
            subs.into_iter().flat_map(clap::Command::get_arguments).filter_map(clap::Arg::get_short).collect();
        let text = include_str!("../../tests/goldens/llama_cpp_flags.txt");
        let mut unknown = Vec::new();
        for typed in text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace) {
            let known =
                taken::is_taken(typed) || flag(typed).is_some() || ["-h", "--help", "--version"].contains(&typed);
            let argv = argv::long_flags([OsString::from(typed)], |long| longs.iter().any(|ours| ours == long));
            let long = argv[0].to_str().unwrap().split('=').next().unwrap().to_owned();
            let short = long.strip_prefix('-').filter(|name| name.len() == 1);
            let ours = long.strip_prefix("--").is_some_and(|long| longs.iter().any(|ours| ours == long))
                || short.is_some_and(|name| shorts.contains(&name.chars().next().unwrap()));
            if !known && !ours {
                unknown.push(typed);
            }
        }
        assert!(unknown.is_empty(), "{unknown:?}");
    }

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
