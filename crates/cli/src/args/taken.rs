//! Flags of llama.cpp that ask for what is so anyway: they are taken out of the command line, and a note says why.

use std::ffi::OsString;

/// What follows a flag.
enum Value {
    None,
    /// One word, whatever it is.
    Any,
    /// One word of these; with another one the flag is not taken.
    Of(&'static [&'static str]),
    /// One word of these, or none; with another word of `SWITCH` the flag is not taken.
    Perhaps(&'static [&'static str]),
}

/// Words that turn something on or off.
const SWITCH: &[&str] = &["on", "off", "auto", "true", "false", "1", "0", "enabled", "disabled"];

/// A flag.
struct Taken {
    names: &'static [&'static str],
    value: Value,
    /// The commands that it is taken by; any if there are none.
    commands: &'static [&'static str],
    why: &'static str,
}

const fn taken(names: &'static [&'static str], value: Value, why: &'static str) -> Taken {
    Taken { names, value, commands: &[], why }
}

const LOGS: &str = "there is no log; --verbose prints speeds and settings";
const THREADS: &str = "threads wait and are scheduled as the system has it";

const TAKEN: &[Taken] = &[
    taken(&["-fa", "--flash-attn"], Value::Perhaps(SWITCH), "attention is always computed in blocks"),
    taken(&["--mlock"], Value::None, "the system keeps the pages of mapped weights that are in use"),
    taken(&["--jinja"], Value::None, "chat templates are always Jinja"),
    taken(&["-co", "--color"], Value::Perhaps(&["on", "auto"]), "output is colored where it is a terminal"),
    taken(&["--warmup", "--no-warmup"], Value::None, "only candor bench warms up"),
    taken(&["--no-perf", "--no-show-timings"], Value::None, "--verbose alone prints speeds"),
    taken(&["--no-display-prompt"], Value::None, "the answer alone is printed"),
    taken(&["--simple-io"], Value::None, "where it is no terminal, output is plain text"),
    taken(&["--log-disable", "--log-prefix", "--no-log-prefix"], Value::None, LOGS),
    taken(&["--log-timestamps", "--no-log-timestamps"], Value::None, LOGS),
    taken(&["--log-colors"], Value::Perhaps(SWITCH), LOGS),
    taken(&["-lv", "--verbosity", "--log-verbosity"], Value::Any, LOGS),
    taken(&["-sm", "--split-mode"], Value::Of(&["layer"]), "several GPUs share a model by layers"),
    taken(&["-mg", "--main-gpu"], Value::Any, "several GPUs share a model by layers, and no one of them leads"),
    taken(&["-lm", "--load-mode"], Value::Of(&["auto", "mmap"]), "weights are mapped from the file"),
    taken(&["--mmap"], Value::None, "weights are mapped from the file"),
    taken(&["-kvu", "--kv-unified"], Value::None, "sequences share one pool of keys and values"),
    taken(&["--nowordwrap"], Value::None, "the terminal breaks lines"),
    taken(&["-np", "--parallel"], Value::Of(&["1"]), "one text is generated at a time"),
    taken(&["-kvo", "--kv-offload"], Value::None, "keys and values lie where their layer is computed"),
    taken(&["--repack", "-nr", "--no-repack"], Value::None, "weights are computed as they lie in the file"),
    taken(&["-dt", "--defrag-thold"], Value::Any, "a cache of pages needs no tidying up"),
    taken(&["--prio", "--prio-batch", "--poll", "--poll-batch"], Value::Any, THREADS),
    taken(&["--no-mmproj", "--no-mmproj-auto"], Value::None, "candor reads text alone"),
    taken(&["-bs", "--backend-sampling"], Value::None, "a GPU finds the best logits itself where that is enough"),
    taken(&["-rea", "--reasoning"], Value::Of(&["auto"]), "the template decides whether the model thinks"),
    taken(&["--reasoning-effort"], Value::Of(&["default"]), "the template decides how much the model thinks"),
    taken(&["--reasoning-budget"], Value::Of(&["-1"]), "thinking has no limit of its own"),
    taken(&["--reasoning-format"], Value::Of(&["auto", "deepseek"]), "reasoning is always told apart"),
    Taken {
        names: &["-cb", "--cont-batching"],
        value: Value::None,
        commands: &["serve"],
        why: "answers always share steps",
    },
    Taken {
        names: &["--cache-prompt"],
        value: Value::None,
        commands: &["serve"],
        why: "prompts that begin alike share memory",
    },
    Taken {
        names: &["--models-autoload"],
        value: Value::None,
        commands: &["serve"],
        why: "a model is loaded where a request names it",
    },
    Taken { names: &["-st", "--single-turn"], value: Value::None, commands: &["run"], why: "candor run answers once" },
    Taken {
        names: &["-cnv", "--conversation"],
        value: Value::None,
        commands: &["run", "chat"],
        why: "candor chat is a conversation",
    },
];

/// What is left of a command line, and a note for each flag that was taken. `ours` says whether the command has a flag of that
/// name itself; `free` whether what follows a flag is a text, and left alone.
pub fn without(
    argv: impl IntoIterator<Item = OsString>,
    ours: impl Fn(&str, &str) -> bool,
    free: impl Fn(&str) -> bool,
) -> (Vec<OsString>, Vec<String>) {
    let argv: Vec<OsString> = argv.into_iter().collect();
    let word = |i: usize| argv.get(i).and_then(|word| word.to_str()).unwrap_or_default();
    let command = word(1);
    let (mut left, mut notes) = (Vec::new(), Vec::new());
    let mut i = 0;
    while i < argv.len() {
        let typed = word(i);
        if typed == "--" {
            left.extend_from_slice(&argv[i..]);
            break;
        }
        if free(typed) {
            left.extend_from_slice(&argv[i..argv.len().min(i + 2)]);
            i += 2;
            continue;
        }
        match words(command, typed, word(i + 1)).filter(|_| i > 1 && !ours(command, typed)) {
            Some((count, why)) => {
                let note = format!("note: {} changes nothing here: {why}", typed.split('=').next().unwrap_or(typed));
                if !notes.contains(&note) {
                    notes.push(note);
                }
                i += count;
            }
            None => {
                left.push(argv[i].clone());
                i += 1;
            }
        }
    }
    (left, notes)
}

/// How many words a flag is with its value, and why it changes nothing; `None` if it is not taken.
fn words(command: &str, typed: &str, next: &str) -> Option<(usize, &'static str)> {
    let (name, joined) = typed.split_once('=').map_or((typed, None), |(name, value)| (name, Some(value)));
    let flag = TAKEN.iter().find(|flag| flag.names.contains(&name))?;
    if !flag.commands.is_empty() && !flag.commands.contains(&command) {
        return None;
    }
    let value = joined.unwrap_or(next);
    let with_value = if joined.is_some() { 1 } else { 2 };
    let count = match flag.value {
        Value::None => joined.is_none().then_some(1),
        Value::Any => (!value.is_empty()).then_some(with_value),
        Value::Of(words) => words.contains(&value).then_some(with_value),
        Value::Perhaps(words) if words.contains(&value) => Some(with_value),
        Value::Perhaps(_) => (joined.is_none() && !SWITCH.contains(&value)).then_some(1),
    };
    count.map(|count| (count, flag.why))
}

/// Why a flag changes nothing, if one of the commands takes it.
#[cfg(test)]
pub fn reason(commands: &[&str], typed: &str) -> Option<&'static str> {
    let of = |flag: &&Taken| flag.commands.is_empty() || flag.commands.iter().any(|own| commands.contains(own));
    TAKEN.iter().filter(of).find(|flag| flag.names.contains(&typed)).map(|flag| flag.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_change_nothing_are_taken_with_their_values() {
        for (given, left, notes) in [
            ("candor run -fa on -p hi", "candor run -p hi", 1),
            ("candor run -fa -p hi --mlock -fa off", "candor run -p hi", 2),
            ("candor run --flash-attn=auto --color", "candor run", 2),
            ("candor run --color off", "candor run --color off", 0),
            ("candor run -p -fa --jinja", "candor run -p -fa", 1),
            ("candor run -- --jinja", "candor run -- --jinja", 0),
            ("candor run -sm layer -sm row", "candor run -sm row", 1),
            ("candor run -st -cnv", "candor run", 2),
            ("candor chat -st -cnv", "candor chat -st", 1),
            ("candor run -lv 3 --poll 50 m.gguf", "candor run m.gguf", 2),
            ("candor bench --no-warmup --mlock", "candor bench --no-warmup", 1),
        ] {
            let words = given.split(' ').map(OsString::from);
            let ours = |command: &str, name: &str| command == "bench" && name == "--no-warmup";
            let (argv, said) = without(words, ours, |flag| flag == "-p");
            assert_eq!(argv, left.split(' ').map(OsString::from).collect::<Vec<_>>(), "{given}");
            assert_eq!(said.len(), notes, "{given}: {said:?}");
        }
    }
}
