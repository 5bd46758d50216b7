//! llama.cpp's flags of several letters after one dash (`-sys TEXT`), turned into the long ones that they stand for.

use std::ffi::OsString;

use super::elsewhere;

/// One dash, several letters, and the long flag.
const SINGLE_DASH: &[(&str, &str)] = &[
    ("-sys", "--system-prompt"),
    ("-sysf", "--system-prompt-file"),
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-fit", "--fit"),
    ("-fitc", "--fit-ctx"),
    ("-hf", "--hf-repo"),
    ("-hff", "--hf-file"),
    ("-hfr", "--hf-repo"),
    ("-jf", "--json-schema-file"),
    ("-md", "--model-draft"),
    ("-mu", "--model-url"),
    ("-ub", "--ubatch-size"),
    ("-pg", "--n-prompt-gen"),
    ("-pps", "--prompt-shared"),
    ("-tb", "--threads-batch"),
    ("-Cr", "--cpu-range"),
    ("-dev", "--device"),
    ("-ofreq", "--output-frequency"),
    ("-ngl", "--gpu-layers"),
    ("-np", "--parallel"),
    ("-kvu", "--kv-unified"),
    ("-ts", "--tensor-split"),
    ("-sp", "--special"),
];

/// Flags of llama.cpp with other names, or that turn one of ours off.
const RENAMED: &[(&str, &str)] = &[
    ("-no-cnv", "--raw"),
    ("--no-conversation", "--raw"),
    ("--no-context-shift", "--context-shift=false"),
    ("--no-escape", "--escape=false"),
    ("--no-skip-chat-parsing", "--skip-chat-parsing=false"),
    ("--spec-draft-model", "--model-draft"),
    ("--spec-draft-n-max", "--draft-max"),
    ("--spec-draft-n-min", "--draft-min"),
    ("--spec-draft-p-min", "--draft-p-min"),
];

/// Flags of which -1 means that the program chooses, which is 0 here.
const CHOSEN: &[&str] = &["-t", "--threads", "-tb", "--threads-batch"];

/// Flags whose value may look like a flag: what follows them is left alone.
const FREE_TEXT: &[&str] = &[
    "-p",
    "--prompt",
    "-sys",
    "--system-prompt",
    "-r",
    "--reverse-prompt",
    "--stop",
    "--dry-sequence-breaker",
    "--grammar",
    "--regex",
];

/// Flags that ask for something else than an answer, wherever they stand, and the command lines for that.
const INSTEAD: &[(&str, &[&str])] = &[
    ("--list-devices", &["devices"]),
    ("--cache-list", &["list"]),
    ("-cl", &["list"]),
    ("--completion-bash", &["completions", "bash"]),
    ("--version", &["--version"]),
];

/// The flag for help that llama.cpp has besides ours.
const USAGE: &str = "--usage";

/// Gives the command that a flag of llama.cpp stands for, such as `--list-devices`; `None` for other flags.
pub fn instead(argv: &[OsString]) -> Option<Vec<OsString>> {
    let text = |word: &OsString| word.to_str().unwrap_or_default().to_owned();
    let mut is_value = false;
    for (i, word) in argv.iter().map(text).enumerate().skip(1) {
        if word == "--" {
            break;
        }
        if !is_value {
            let words = INSTEAD.iter().find(|(flag, _)| *flag == word).map(|(_, words)| *words);
            match words {
                // That is what is there already.
                Some(["--version"]) if i == 1 => return None,
                Some(words) => {
                    return Some(argv[..1].iter().cloned().chain(words.iter().map(OsString::from)).collect());
                }
                None if word == USAGE => return Some(argv[..i].iter().cloned().chain(["--help".into()]).collect()),
                None => {}
            }
        }
        is_value = !is_value && is_free_text(&word);
    }
    None
}

/// Makes a `candor chat` of `candor run -cnv`, where no `-st` asks for one answer.
pub fn conversation(mut argv: Vec<OsString>) -> Vec<OsString> {
    let (mut asked, mut once, mut is_value) = (false, false, false);
    for word in argv.iter().skip(2).map(|word| word.to_str().unwrap_or_default()).take_while(|word| *word != "--") {
        asked |= !is_value && matches!(word, "-cnv" | "--conversation");
        once |= !is_value && matches!(word, "-st" | "--single-turn");
        is_value = !is_value && is_free_text(word);
    }
    if asked && !once && argv[1] == "run" {
        argv[1] = "chat".into();
    }
    argv
}

/// Whether a flag has another name here.
#[cfg(test)]
pub fn is_renamed(flag: &str) -> bool {
    RENAMED.iter().any(|(theirs, _)| *theirs == flag)
}

/// The name of a flag, without its value: the long one for those with one dash and several letters.
pub fn long_name(typed: &str) -> &str {
    let name = typed.split_once('=').map_or(typed, |(name, _)| name);
    SINGLE_DASH.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, long)| long)
}

/// What a flag does that stands for a whole command line.
#[cfg(test)]
pub fn stands_for(flag: &str) -> Option<String> {
    let words = INSTEAD.iter().find(|(name, _)| *name == flag).map(|(_, words)| words.join(" "));
    words.or_else(|| (flag == USAGE).then(|| "--help".to_owned()))
}

/// Whether what follows a flag may look like a flag.
pub fn is_free_text(flag: &str) -> bool {
    FREE_TEXT.contains(&flag)
}

/// Replaces the flags with one dash, up to a `--`. Other programs' get a second dash, and our own names with a dash too few
/// two more, so that they are refused and not read as `-f a` or `-t emp`. `ours` knows the names.
pub fn long_flags(argv: impl IntoIterator<Item = OsString>, ours: impl Fn(&str) -> bool) -> Vec<OsString> {
    let mut long = Vec::new();
    let (mut is_value, mut ended, mut is_chosen) = (false, false, false);
    for arg in argv {
        let text = arg.to_str().unwrap_or_default();
        let replaced = match text {
            _ if is_value || ended => None,
            "-1" if is_chosen => Some("0".to_owned()),
            _ => replacement(text, &ours),
        };
        is_chosen = !is_value && CHOSEN.contains(&text);
        ended |= !is_value && text == "--";
        is_value = !is_value && is_free_text(text);
        long.push(replaced.map_or(arg, OsString::from));
    }
    long
}

/// The long form of `-sys` or `-sys=TEXT`.
fn replacement(arg: &str, ours: impl Fn(&str) -> bool) -> Option<String> {
    let (flag, value) = arg.split_once('=').map_or((arg, None), |(flag, value)| (flag, Some(value)));
    let long = match SINGLE_DASH.iter().chain(RENAMED).find(|(theirs, _)| *theirs == flag) {
        Some((_, long)) => (*long).to_owned(),
        None if elsewhere::is_single_dash(flag) => format!("-{flag}"),
        None if flag.len() > 2 && flag.strip_prefix('-').is_some_and(ours) => format!("--{flag}"),
        None => return None,
    };
    Some(value.map_or_else(|| long.clone(), |value| format!("{long}={value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_flags_stand_for_a_command_line() {
        for (given, expected) in [
            ("candor run -m x --list-devices", Some("candor devices")),
            ("candor --list-devices", Some("candor devices")),
            ("candor run --version", Some("candor --version")),
            ("candor run m.gguf --usage", Some("candor run m.gguf --help")),
            ("candor run --completion-bash", Some("candor completions bash")),
            ("candor --version", None),
            ("candor run -p --list-devices", None),
            ("candor run -- --version", None),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(instead(&words(given)), expected.map(words), "{given}");
        }
    }

    #[test]
    fn a_conversation_is_held_by_chat() {
        for (given, expected) in [
            ("candor run m.gguf -cnv", "candor chat m.gguf -cnv"),
            ("candor run --conversation -p hi", "candor chat --conversation -p hi"),
            ("candor run -cnv -st", "candor run -cnv -st"),
            ("candor run -p -cnv", "candor run -p -cnv"),
            ("candor run -- -cnv", "candor run -- -cnv"),
            ("candor bench -cnv", "candor bench -cnv"),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(conversation(words(given)), words(expected), "{given}");
        }
    }

    #[test]
    fn single_dash_flags_become_long_and_values_stay() {
        for (given, expected) in [
            ("run -sys x -ub 4", "run --system-prompt x --ubatch-size 4"),
            ("run -ctk=f16 -ctv f32", "run --cache-type-k=f16 --cache-type-v f32"),
            ("run -p -sys -sys -sys", "run -p -sys --system-prompt -sys"),
            ("run -- -sys", "run -- -sys"),
            ("run -p -- -sys x", "run -p -- --system-prompt x"),
            ("run -sysx -s 3", "run -sysx -s 3"),
            ("run -ot on -p -ot -hf=x/y", "run --ot on -p -ot --hf-repo=x/y"),
            ("run -t -1 -tb -1 -c -1", "run -t 0 --threads-batch 0 -c -1"),
            ("run -no-cnv --no-context-shift", "run --raw --context-shift=false"),
            ("run -temp 1 -p -temp --temp 2", "run ---temp 1 -p -temp --temp 2"),
            ("bench -p 5 -pg 1,2 -pg=3,4", "bench -p 5 --n-prompt-gen 1,2 --n-prompt-gen=3,4"),
        ] {
            let long = long_flags(given.split(' ').map(OsString::from), |name| name == "temp");
            assert_eq!(long, expected.split(' ').map(OsString::from).collect::<Vec<_>>(), "{given}");
        }
    }
}
