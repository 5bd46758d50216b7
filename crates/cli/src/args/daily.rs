//! What `-h` shows of each command: the flags of daily use, and examples. `--help` shows every flag, manual pages end with
//! the examples.

use clap::Command;

/// A command's flags of daily use, and its examples with what each does.
pub struct Daily {
    pub command: &'static str,
    /// Long names; empty where a command has few flags, which are all shown.
    flags: &'static [&'static str],
    pub examples: &'static [Example],
}

/// A command line, and what it does.
type Example = (&'static str, &'static str);

/// Every command that answers, measures or explains.
const DAILY: &[Daily] = &[
    Daily {
        command: "run",
        flags: &[
            "model",
            "prompt",
            "file",
            "raw",
            "system-prompt",
            "predict",
            "temp",
            "seed",
            "ctx-size",
            "gpu-layers",
            "threads",
            "verbose",
        ],
        examples: &[
            ("candor run -p \"Hello, how are you?\"", "ask the built-in model"),
            ("candor run model.gguf \"Why is the sky blue?\"", "ask a model from a file"),
            ("candor run hf:ggml-org/gemma-3-4b-it-GGUF \"Why?\"", "fetch a model the first time, and ask it"),
            ("candor run model.gguf --raw -p \"Once upon a time\" -n 100 --temp 0", "continue a text"),
            ("cat report.txt | candor run model.gguf -p \"Summarise:\"", "ask about a text"),
        ],
    },
    Daily {
        command: "chat",
        flags: &[
            "model",
            "system-prompt",
            "predict",
            "temp",
            "top-p",
            "seed",
            "ctx-size",
            "context-shift",
            "gpu-layers",
            "threads",
            "verbose",
        ],
        examples: &[
            ("candor chat", "talk with the built-in model; /help lists the commands, /exit leaves"),
            ("candor chat model.gguf -sys \"Answer in one sentence.\"", "say how to answer"),
        ],
    },
    Daily {
        command: "serve",
        flags: &[
            "model",
            "host",
            "port",
            "api-key",
            "parallel",
            "ctx-size",
            "predict",
            "temp",
            "chat-template",
            "gpu-layers",
            "threads",
            "verbose",
        ],
        examples: &[
            ("candor serve model.gguf", "answer at http://127.0.0.1:8080"),
            ("candor serve model.gguf --host 0.0.0.0 --api-key secret -np 8 -c 32768", "answer others, too"),
        ],
    },
    Daily {
        command: "batch",
        flags: &[
            "model",
            "parallel",
            "ctx-size",
            "predict",
            "temp",
            "chat-template",
            "gpu-layers",
            "threads",
            "verbose",
        ],
        examples: &[("candor batch in.jsonl out.jsonl model.gguf -np 16", "answer a file of requests, 16 at once")],
    },
    Daily {
        command: "pull",
        flags: &[],
        examples: &[
            ("candor pull hf:ggml-org/gemma-3-4b-it-GGUF", "the model in 4 bits of a repository of Hugging Face"),
            ("candor pull hf:ggml-org/gemma-3-4b-it-GGUF:Q8_0", "the one in 8 bits"),
            ("candor pull ollama:llama3.2:1b", "a model of Ollama, into its store"),
        ],
    },
    Daily { command: "list", flags: &[], examples: &[("candor list", "the models on this machine, and their names")] },
    Daily {
        command: "rm",
        flags: &[],
        examples: &[("candor rm ollama:llama3.2:1b", "its files go, those that another model needs stay")],
    },
    Daily {
        command: "show",
        flags: &[],
        examples: &[("candor show model.gguf", "what is in a file, and the memory that it needs")],
    },
    Daily {
        command: "tokenize",
        flags: &[],
        examples: &[("candor tokenize model.gguf -p \"Hello\"", "ids and pieces of a text")],
    },
    Daily {
        command: "perplexity",
        flags: &["model", "file", "ctx-size", "gpu-layers", "threads", "verbose", "progress"],
        examples: &[("candor perplexity model.gguf -f text.txt", "how well a model predicts a text")],
    },
    Daily {
        command: "imatrix",
        flags: &[
            "model",
            "file",
            "output-file",
            "chunks",
            "in-file",
            "from-chunk",
            "process-output",
            "threads",
            "progress",
        ],
        examples: &[
            ("candor imatrix model-f16.gguf -f text.txt -o imatrix.gguf", "what to give to candor quantize --imatrix"),
            ("candor imatrix --in-file a.gguf --in-file b.gguf -o both.gguf", "the sums of two runs"),
        ],
    },
    Daily {
        command: "quantize",
        flags: &[
            "pure",
            "imatrix",
            "tensor-type",
            "output-tensor-type",
            "token-embedding-type",
            "allow-requantize",
            "keep-split",
            "dry-run",
            "target-size",
            "target-bpw",
            "file",
            "progress",
        ],
        examples: &[
            ("candor quantize model-f16.gguf model-q4.gguf Q4_K_M", "a file of about a third of the size"),
            ("candor quantize --dry-run model-f16.gguf Q6_K", "what each tensor would become, and the size"),
            ("candor quantize --target-size 4.2G -f text.txt model-f16.gguf model.gguf", "the best file of that size"),
        ],
    },
    Daily {
        command: "compare",
        flags: &["file", "costs", "ctx-size", "chunks", "threads", "json", "progress"],
        examples: &[
            ("candor compare model-f16.gguf model-q4.gguf", "what differs, and by how much"),
            ("candor compare model-f16.gguf model-q4.gguf -f text.txt --costs", "which tensor costs most"),
        ],
    },
    Daily {
        command: "gguf",
        flags: &["split-max-tensors", "split-max-size", "progress"],
        examples: &[
            ("candor gguf set model.gguf new.gguf llama.context_length=8192", "another value in the metadata"),
            ("candor gguf split model.gguf model --split-max-size 2G", "model-00001-of-00004.gguf and so on"),
            ("candor gguf merge model-00001-of-00004.gguf model.gguf", "one file again"),
        ],
    },
    Daily {
        command: "embed",
        flags: &[
            "model",
            "prompt",
            "file",
            "pooling",
            "embd-normalize",
            "embd-output-format",
            "output-file",
            "threads",
        ],
        examples: &[("candor embed encoder.gguf -f lines.txt -o vectors.npy", "a vector of each line")],
    },
    Daily {
        command: "rerank",
        flags: &["model", "query", "file", "gpu-layers", "threads"],
        examples: &[("candor rerank reranker.gguf --query \"Why?\" -f documents.txt", "the best answers first")],
    },
    Daily {
        command: "bench",
        flags: &[
            "model",
            "n-prompt",
            "n-gen",
            "n-prompt-gen",
            "n-depth",
            "repetitions",
            "threads",
            "gpu-layers",
            "batch-size",
            "output",
            "progress",
        ],
        examples: &[
            ("candor bench model.gguf", "512 tokens read, 128 written, as llama-bench does"),
            ("candor bench model.gguf -p 0 -n 32 -t 1,2,4", "decoding with 1, 2 and 4 threads"),
        ],
    },
    Daily {
        command: "trace",
        flags: &["model", "prompt", "ids", "names", "layers", "steps", "output", "stats", "html", "plant"],
        examples: &[
            ("candor trace model.gguf -p \"Hello\" -o run.safetensors", "record every value"),
            ("candor trace model.gguf -p \"Hello\" --stats", "print what they look like"),
        ],
    },
    Daily {
        command: "logits",
        flags: &["model", "prompt", "file", "ids", "top", "all", "device", "threads", "verbose"],
        examples: &[("candor logits model.gguf -p \"The capital of France is\"", "the likeliest next tokens")],
    },
    Daily {
        command: "diagnose",
        flags: &[],
        examples: &[
            (
                "candor diagnose model.gguf --trace dump.npz --ids 1,15043",
                "the first wrong operation of another engine",
            ),
            ("candor diagnose model.gguf --trace dump.npz --html page.html", "the same as a page to look at"),
        ],
    },
    Daily {
        command: "verify",
        flags: &[
            "model",
            "quick",
            "against",
            "ids",
            "prompt",
            "steps",
            "device",
            "gpu-layers",
            "threads",
            "json",
            "progress",
        ],
        examples: &[("candor verify model.gguf", "prove this machine's run, operation by operation")],
    },
    Daily {
        command: "doctor",
        flags: &["model", "text", "ctx-size", "chunks", "device", "gpu-layers", "threads", "json", "progress"],
        examples: &[
            ("candor doctor model.gguf", "is the file whole, are its weights sane?"),
            ("candor doctor model.gguf --text novel.txt", "and was it converted rightly?"),
        ],
    },
    Daily { command: "devices", flags: &[], examples: &[("candor devices", "where a model can run on this machine")] },
    Daily {
        command: "config",
        flags: &[],
        examples: &[
            ("candor config", "the settings in effect, and where they come from"),
            ("candor config path", "where the configuration file is looked for"),
        ],
    },
];

/// The first steps, under the list of commands.
pub const FIRST_STEPS: &[Example] = &[
    ("candor run -p \"Hello, how are you?\"", "ask the built-in model"),
    ("candor chat model.gguf", "talk with a model from a file"),
    ("candor help run", "all flags of a command; candor run -h shows the few of daily use"),
];

/// What is said of a command; `None` for the few that need no example.
pub fn of(command: &str) -> Option<&'static Daily> {
    DAILY.iter().find(|daily| daily.command == command)
}

/// The command with its short help: flags of daily use and examples. What followed its help follows the long one.
pub fn shorten(command: Command) -> Command {
    let Some(Daily { command: name, flags, examples }) = of(command.get_name()) else { return command };
    let notes = command.get_after_help().map(|notes| format!("\n\n{notes}")).unwrap_or_default();
    let all = if flags.is_empty() { String::new() } else { format!("\n\nAll flags: candor help {name}") };
    let examples = listed(examples);
    let command = command.after_help(format!("{examples}{all}")).after_long_help(format!("{examples}{notes}"));
    match flags.is_empty() {
        true => command,
        false => command.mut_args(|arg| {
            let daily = arg.get_long().is_none_or(|long| flags.contains(&long));
            arg.hide_short_help(!daily)
        }),
    }
}

/// Examples as help texts end with them.
pub fn listed(examples: &[Example]) -> String {
    let lines = examples.iter().map(|(line, does)| format!("\n  {line}\n      {does}"));
    format!("Examples:{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse::command;

    #[test]
    fn rows_name_commands_and_flags_that_there_are() {
        let command = command();
        for Daily { command: name, flags, .. } in DAILY {
            let sub = command.find_subcommand(name).unwrap_or_else(|| panic!("{name} is no command"));
            for flag in *flags {
                assert!(sub.get_arguments().any(|arg| arg.get_long() == Some(flag)), "{name} has no --{flag}");
            }
            assert!(flags.len() <= 12, "{name}: {} flags in the short help", flags.len());
        }
    }

    #[test]
    fn short_help_is_short_everywhere() {
        for sub in command().get_subcommands_mut() {
            let lines = sub.render_help().to_string().lines().count();
            assert!(lines <= 72, "candor {} -h: {lines} lines", sub.get_name());
        }
    }

    #[test]
    fn every_example_is_a_command_line_that_is_understood() {
        let examples = DAILY.iter().flat_map(|daily| daily.examples).chain(FIRST_STEPS);
        for (line, _) in examples {
            let ours = &line[line.find("candor").expect("our name")..];
            // Words between quotes are one word.
            let mut words: Vec<String> = Vec::new();
            for (i, part) in ours.split('"').enumerate() {
                match i % 2 {
                    0 => words.extend(part.split_whitespace().map(str::to_owned)),
                    _ => words.push(part.to_owned()),
                }
            }
            if words[1] == "help" {
                continue;
            }
            let argv = crate::args::argv::long_flags(words.into_iter().map(Into::into), |_| false);
            command().try_get_matches_from(argv).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
