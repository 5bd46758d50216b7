//! Flags and commands of llama.cpp and Ollama that Candor does not have, and what there is instead: a wrong name gets a true
//! hint rather than the nearest one.

/// Names that one hint holds for.
type Row = (&'static [&'static str], &'static str);

const ANSWERS: &str = "candor run answers once, candor chat holds a conversation";
/// For names of models that other programs download.
pub const DOWNLOADS: &str = "candor run hf:USER/REPO fetches a model by its name, candor pull does so alone";
const SHAPES: &str = "--json-schema SCHEMA has answers of that schema; {} is any JSON";
const LAYERS: &str = "-ngl N gives whole layers to the GPU";
const LOGS: &str = "--verbose prints speeds and why an answer stopped; --progress never hides the bar";
const DIFFUSION: &str = "candor runs no diffusion models";
const DRAFT: &str =
    "the draft model runs where the model runs; --draft-max, --draft-min and --draft-p-min bound its guesses";
const IMATRIX: &str = "candor imatrix writes sums alone, to one file";
const KEPT: &str = "--prompt-cache FILE keeps a computed prompt";
const LOOKUP: &str = "--prompt-lookup guesses tokens from the text itself";
const MEASURE: &str = "candor perplexity measures perplexity and divergence alone, of a text in windows of -c tokens";
const PROCESSORS: &str = "-Cr LO-HI keeps all threads to a range of processors";
const ROTARY: &str = "positions are scaled for all tokens alike: --rope-scaling and --rope-scale say how";
const TEXT: &str = "candor reads text alone";
const THINKING: &str = "--think=false turns thinking off where the template can, --hide-thinking hides it";
const LAUNCH: &str = "candor starts no other programs; candor serve answers their requests over HTTP";
const SERVE: &str = "candor serve answers over HTTP";
const SERVER: &str = "candor serve has no such setting: docs/server.md says what it serves";
const TRAINING: &str = "candor trains nothing";
const VALUES: &str = "candor logits prints logits, candor trace records the values of a run";
const VECTORS: &str = "candor embed makes a vector of each line of a file";
const STORE: &str = "candor pull, list and rm fetch, list and remove models; they stay files, and none stays loaded";
const DRAFTS: &str = "-md takes a name, too: -md hf:USER/REPO";
const TOKEN: &str = "HF_TOKEN gives the token: others on the machine can read a command line";

const FLAGS: &[Row] = &[
    (&["-hft", "--hf-token"], TOKEN),
    (&["-dr", "--docker-repo"], DOWNLOADS),
    (&["--spec-draft-hf", "-hfd", "-hfrd", "--hf-repo-draft"], DRAFTS),
    (&["--gpt-oss-20b-default", "--gpt-oss-120b-default", "--spec-default"], DOWNLOADS),
    (&["--vision-gemma-4b-default", "--vision-gemma-12b-default"], DOWNLOADS),
    (&["-no-fa"], "attention is always computed in blocks, without its matrix: leave it out"),
    (&["--no-jinja"], "chat templates are always Jinja; --raw continues a text without one"),
    (&["-cnv", "--conversation", "-st", "--single-turn", "--interactive"], ANSWERS),
    (&["-if", "--interactive-first", "-i"], ANSWERS),
    (&["--host", "--port", "--api-key", "-np", "--parallel", "-a", "--alias", "--cors-origins"], SERVE),
    (&["-cb", "--cont-batching"], SERVER),
    (&["--slots", "--metrics"], "candor serve has them: /slots and /metrics"),
    (&["--ssl-key-file", "--ssl-cert-file"], SERVE),
    (&["--server-base"], "candor asks no server; candor serve is one"),
    (&["--rpc"], "candor computes on this machine alone"),
    (&["--format"], SHAPES),
    (&["--log-file", "--perf", "--show-timings", "--log-jsonl", "--no-log-jsonl", "--log-prompts-dir"], LOGS),
    (&["-ptc", "--print-token-count", "--log-verbose"], LOGS),
    (&["--display-prompt"], "the answer alone is printed; --verbose-prompt prints the prompt to stderr"),
    (&["-nkvo", "--no-kv-offload", "-ot", "--override-tensor", "-cmoe", "--cpu-moe", "-ncmoe", "--n-cpu-moe"], LAYERS),
    (&["-ncffn", "--n-cpu-ffn", "--no-host", "--op-offload", "--no-op-offload"], LAYERS),
    (&["-fitt", "--fit-target"], "--gpu-memory SIZE bounds what -ngl auto takes"),
    (&["--numa"], "-Cr with the processors of one socket keeps the threads there (docs/performance.md)"),
    (&["-C", "--cpu-mask", "-Cb", "--cpu-mask-batch", "-Crb", "--cpu-range-batch", "--cpu-strict-batch"], PROCESSORS),
    (
        &["-sm", "--split-mode"],
        "several GPUs share a model by layers, as -ts says; --device NAME computes on one of them",
    ),
    (
        &["-lm", "--load-mode", "-lzm", "--lazy-mode"],
        "weights are mapped from the file; --no-mmap reads them into memory",
    ),
    (&["--check-tensors"], "candor doctor FILE examines a file"),
    (&["-gan", "--grp-attn-n", "-gaw", "--grp-attn-w"], ROTARY),
    (&["--swa-full"], "layers with a window keep their window alone"),
    (&["-ctxcp", "--ctx-checkpoints", "--swa-checkpoints", "-cram", "--cache-ram"], KEPT),
    (&["-bf", "--binary-file"], "-f FILE reads the prompt"),
    (&["-o", "--output", "--output-file"], "answers go to stdout: candor run MODEL -p TEXT > FILE"),
    (&["--color", "-co"], "output is colored where it is a terminal and NO_COLOR is not set: leave it out"),
    (&["--log-colors"], LOGS),
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
    (&["--embedding", "--embeddings"], "candor embed makes vectors of texts, candor serve --embedding over HTTP"),
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
    (&["--spec-ngram-size-n", "--spec-ngram-size-m", "--spec-ngram-min-hits"], LOOKUP),
    (&["-lcs", "--lookup-cache-static", "-lcd", "--lookup-cache-dynamic"], LOOKUP),
    (&["--kv-unified-per-slot", "-no-kvu", "--no-kv-unified"], "sequences share one pool of keys and values"),
    (&["-cms", "--checkpoint-min-step", "--cache-idle-slots", "--no-cache-idle-slots"], SERVER),
    (&["-nocb", "--no-cont-batching", "--mtmd-batch-max-tokens", "--tags", "--spm-infill"], SERVER),
    (&["--reuse-port", "--path", "--cors-methods", "--cors-headers", "--cors-credentials"], SERVER),
    (&["--no-cors-credentials", "--api-prefix", "--ui-config", "--webui-config", "--ui-config-file"], SERVER),
    (&["--webui-config-file", "--ui-mcp-proxy", "--webui-mcp-proxy", "--no-ui-mcp-proxy"], SERVER),
    (&["--no-webui-mcp-proxy", "--tools", "--tools-runtime", "--mcp-servers-config", "--mcp-servers-json"], SERVER),
    (&["-ag", "--agent", "-no-ag", "--no-agent", "--ui", "--webui", "--no-ui", "--no-webui"], SERVER),
    (&["--api-key-file", "-to", "--timeout", "--sse-ping-interval"], SERVER),
    (&["--threads-http", "--cache-reuse", "--props", "--no-slots"], SERVER),
    (&["--slot-save-path", "--media-path", "--models-preset"], SERVER),
    (&["--models-dir", "--models-max", "--no-models-autoload", "--sleep-idle-seconds"], SERVE),
    (&["--models-autoload", "--prefill-assistant", "--no-prefill-assistant"], SERVER),
    (&["-sps", "--slot-prompt-similarity", "--lora-init-without-apply"], SERVER),
    (&["--rerank", "--reranking"], "candor rerank sorts documents, candor serve --reranking over HTTP"),
    (&["--mmproj-device", "-mmdev"], TEXT),
    (&["--mtp", "--dflash", "--eagle3", "--insecure"], DOWNLOADS),
    (&["--hellaswag", "--hellaswag-tasks", "--winogrande", "--winogrande-tasks", "--multiple-choice"], MEASURE),
    (&["--multiple-choice-tasks", "--ppl-stride", "--ppl-output-type"], MEASURE),
    (&["-npp", "-ntg", "-npl"], "candor bench has -p, -n and -B for prompts, generated tokens and sequences"),
    (&["-tgs"], "candor bench computes all sequences in one pass"),
    (&["--output-format"], "candor bench -o FORMAT says what is printed"),
    (&["-fitp", "--fit-print"], "candor show prints the memory that a model needs"),
    (&["--save-frequency", "--nextn", "--ppl", "--no-ppl", "--show-statistics"], IMATRIX),
    (&["--attention"], "--override-kv ARCHITECTURE.attention.causal=bool:false lets tokens see each other"),
    (&["--embd-separator", "--cls-separator", "--context-file", "--chunk-size", "--chunk-separator"], VECTORS),
    (&["-ns", "--sequences", "--junk", "--pos"], "candor bench -B N measures several texts at once"),
    (&["--stdin"], "candor tokenize reads stdin where there is neither -p nor -f"),
    (&["--show-count"], "candor tokenize prints a token on each line"),
    (&["--save-logits", "--logits-output-dir", "--check", "--tensor-filter"], VALUES),
    (&["--spec-draft-cpu-range-batch", "-Crbd", "--cpu-range-batch-draft"], DRAFT),
    (&["--embd-gemma-default", "--fim-qwen-1.5b-default", "--fim-qwen-3b-default"], DOWNLOADS),
    (&["--fim-qwen-7b-default", "--fim-qwen-7b-spec", "--fim-qwen-14b-spec", "--fim-qwen-30b-default"], DOWNLOADS),
    (&["--positive-file", "--negative-file", "--pca-batch", "--pca-iter", "--method"], TRAINING),
    (&["-lr", "--learning-rate", "-lr-min", "--learning-rate-min", "-decay-epochs"], TRAINING),
    (&["--learning-rate-decay-epochs", "-wd", "--weight-decay", "-val-split", "--val-split"], TRAINING),
    (&["-epochs", "--epochs", "-opt", "--optimizer"], TRAINING),
    (&["--tts-lang", "--tts-speaker-file"], "candor writes text alone"),
    (&["--diffusion-steps", "--diffusion-visual", "--diffusion-eps", "--diffusion-algorithm"], DIFFUSION),
    (&["--diffusion-alg-temp", "--diffusion-block-length", "--diffusion-cfg-scale"], DIFFUSION),
    (&["--diffusion-add-gumbel-noise"], DIFFUSION),
    (&["--dimensions"], "candor embed prints vectors as long as the model makes them"),
];

const COMMANDS: &[Row] = &[
    (&["server"], SERVE),
    (&["push", "create", "cp", "ps", "stop"], STORE),
    (&["ls"], "candor list lists the models on this machine"),
    (&["download", "get", "search"], DOWNLOADS),
    (&["signin", "signout"], "HF_TOKEN gives a token of Hugging Face"),
    (&["launch"], LAUNCH),
    (&["generate", "cli", "client", "completion", "complete"], ANSWERS),
    (&["batched-bench"], "candor bench -B N measures several texts at once"),
    (&["fit-params"], "candor show prints the memory that a model needs"),
    (&["embedding"], "candor embed"),
    (&["gguf-split"], "candor gguf split, candor gguf merge"),
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
