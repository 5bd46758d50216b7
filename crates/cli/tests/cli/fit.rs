//! The context that fits: files of published shapes and lengths in little memory, which `ulimit` makes.

use std::path::{Path, PathBuf};

use candor_testing::{Large, Tiny, large};

use crate::program::{Outcome, Program, candor, story};

/// Bytes of this machine's memory that programs can have, if it is as much.
fn has_memory(bytes: u64) -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).expect("Linux says it");
    let free = 1024 * line.split_whitespace().next().unwrap().parse::<u64>().unwrap();
    if free < bytes {
        eprintln!("skipped: {free} bytes of memory are free, and {bytes} are needed");
    }
    free >= bytes
}

/// The same program under a limit, in units of 1024 bytes.
fn limited(program: Program, ulimit: &str) -> Program {
    let Program { command, .. } = &program;
    let (name, args) =
        (command.get_program().to_owned(), command.get_args().map(ToOwned::to_owned).collect::<Vec<_>>());
    program.by(|shell| {
        shell.arg("-c").arg(format!("ulimit {ulimit} && exec \"$0\" \"$@\"")).arg(name).args(args);
    })
}

fn chat(path: &Path, flags: &[&str], lines: &str, ulimit: &str) -> Outcome {
    let fixed = ["chat", path.to_str().unwrap(), "--device", "cpu", "-t", "1"];
    limited(candor(fixed.iter().chain(flags)).stdin(lines), ulimit).outcome()
}

fn written(large: &Large, folder: &Path) -> PathBuf {
    let path = folder.join(format!("{}.gguf", large.name));
    large.write(&path);
    path
}

/// The number of tokens after `context: 0 of `.
fn context(outcome: &Outcome) -> usize {
    let line = outcome.stderr.lines().find_map(|line| line.strip_prefix("context: 0 of ")).unwrap_or_default();
    line.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{outcome:?}"))
}

#[test]
fn models_with_long_contexts_start_in_8_gb_with_a_note_and_are_refused_in_2() {
    if !has_memory(9_000_000_000) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for large in large() {
        let path = written(&large, folder.path());
        let started = chat(&path, &[], "/stats\n", "-v 8000000");
        assert_eq!(started.code, 0, "{}: {started:?}", large.name);
        let tokens = context(&started);
        assert!((4096..large.context as usize).contains(&tokens), "{}: {tokens}", large.name);
        let note = format!("note: a context of {tokens} tokens, of the model's {}: there are ", large.context);
        assert_eq!(started.stderr.matches(&note).count(), 1, "{}: {started:?}", large.name);
        assert!(started.stderr.contains(" GB free (addresses, ulimit -v); -c N asks for another\n"), "{started:?}");
        // As much as it says can be asked for, and what the model has cannot.
        let asked = chat(&path, &["-c", &tokens.to_string()], "/stats\n", "-v 8000000");
        assert_eq!((asked.code, context(&asked)), (0, tokens), "{}: {asked:?}", large.name);
        assert!(!asked.stderr.contains("note: "), "{asked:?}");
        let own = chat(&path, &["-c", &large.context.to_string()], "/stats\n", "-v 8000000");
        let lines: Vec<&str> = own.stderr.lines().collect();
        assert_eq!((own.code, lines.len()), (1, 2), "{}: {own:?}", large.name);
        assert!(lines[0].starts_with(&format!("error: a context of {} tokens takes ", large.context)), "{own:?}");
        assert!(lines[1].starts_with("hint: -c ") && lines[1].contains(" fits; -ctk q8_0 -ctv q8_0 "), "{own:?}");

        let refused = chat(&path, &[], "/stats\n", "-v 2000000");
        let lines: Vec<&str> = refused.stderr.lines().collect();
        assert_eq!((refused.code, lines.len()), (1, 2), "{}: {refused:?}", large.name);
        assert!(lines[0].starts_with("error: ") && lines[1].starts_with("hint: "), "{refused:?}");
        std::fs::remove_file(path).unwrap();
    }
}

/// A file of small weights with as wide a cache as Phi-3.5-mini's.
fn wide(folder: &Path) -> PathBuf {
    let shape = Tiny { layers: 32, dim: 32, heads: 32, kv_heads: 32, head_dim: 96, ffn: 32, ..Tiny::default() };
    let mut writer = shape.writer();
    writer.insert("llama.context_length", 131_072u32);
    writer.insert("tokenizer.chat_template", "{% for m in messages %}{{ m.content }} {% endfor %}");
    let path = folder.join("wide.gguf");
    writer.write_file(&path).unwrap();
    path
}

#[test]
fn too_little_memory_for_a_conversation_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = wide(folder.path());
    for limit in ["-v 2000000", "-d 2000000"] {
        let refused = chat(&path, &[], "/stats\n", limit);
        let lines: Vec<&str> = refused.stderr.lines().collect();
        assert_eq!((refused.code, lines.len()), (1, 2), "{limit}: {refused:?}");
        assert!(lines[0].starts_with("error: not even a context of 4096 tokens fits: it takes 1."), "{refused:?}");
        assert!(lines[0].contains(&format!("ulimit {}", &limit[..2])), "{refused:?}");
        // Fewer are enough where that is said; a smaller cache holds twice as many.
        let fewer = chat(&path, &["--fit-ctx", "512"], "/stats\n", limit);
        assert!(fewer.code == 0 && (512..4096).contains(&context(&fewer)), "{limit}: {fewer:?}");
        let smaller = chat(&path, &["-ctk", "q8_0", "-ctv", "q8_0", "-fitc", "1000"], "/stats\n", limit);
        let ratio = context(&smaller) as f64 / context(&fewer) as f64;
        assert!((1.7..2.1).contains(&ratio), "{limit}: {ratio}");
        // Not shortened, the model's own is refused.
        let own = chat(&path, &["--fit", "off"], "/stats\n", limit);
        assert!(own.code == 1 && own.stderr.starts_with("error: a context of 131072 tokens takes 5"), "{own:?}");
        let own = chat(&path, &["-fit", "off", "-c", "1024"], "/stats\n", limit);
        assert_eq!((own.code, context(&own)), (0, 1024), "{own:?}");
    }
}

/// A draft model of the same size halves what there is.
#[test]
fn a_context_that_is_left_open_leaves_room_for_a_draft_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = wide(folder.path());
    let name = path.to_str().unwrap();
    let flags = ["--fit-ctx", "256"];
    let alone = context(&chat(&path, &flags, "/stats\n", "-v 3000000"));
    let both = chat(&path, &[&flags[..], &["-md", name]].concat(), "/stats\n", "-v 3000000");
    assert_eq!(both.code, 0, "{both:?}");
    assert!((256..alone).contains(&context(&both)), "{alone}: {both:?}");
}

#[test]
fn weights_that_are_read_are_refused_before_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(&large()[1], folder.path());
    let read = chat(&path, &["--no-mmap"], "/stats\n", "-d 2000000");
    let lines: Vec<&str> = read.stderr.lines().collect();
    assert!(lines[0].starts_with("error: the weights take 2.2 GB of memory where they are read"), "{read:?}");
    assert!(read.code == 1 && lines.len() == 2 && lines[1].starts_with("hint: "), "{read:?}");
}

#[test]
fn show_says_what_contexts_take_and_which_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = wide(folder.path());
    let name = path.to_str().unwrap();
    let text = limited(candor(["show", name]), "-v 2000000").text();
    let at = text.lines().position(|line| line.ends_with(" fits here")).expect("a table");
    let rows: Vec<Vec<&str>> = text.lines().skip(at + 1).map(|line| line.split_whitespace().collect()).collect();
    let rows: Vec<_> = rows.into_iter().take_while(|row| !row.is_empty()).collect();
    let lengths: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(lengths, ["2048", "4096", "8192", "16384", "32768", "65536", "131072"]);
    assert_eq!(rows[0][1..5], ["805", "MB", "428", "MB"], "{text}");
    let fits: Vec<&str> = rows.iter().filter_map(|row| row.last().copied()).collect();
    assert_eq!(fits, ["yes", "yes", "q8_0", "no", "no", "no", "no"].map(|fits| fits), "{text}");
    let json = limited(candor(["show", name, "--json", "-c", "3000"]), "-v 2000000").text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let contexts = json["memory"]["contexts"].as_array().unwrap();
    let one = contexts.iter().find(|one| one["context"] == 3000).expect("what was asked for");
    assert_eq!(
        (&one["cache_f16"], &one["cache_q8_0"]),
        (&(3000 * 32 * 32 * 96 * 4u64).into(), &(3000 * 32 * 32 * 204u64).into())
    );
    assert_eq!((&one["fits_f16"], &one["fits_q8_0"]), (&true.into(), &true.into()));
    assert_eq!(contexts.last().unwrap()["fits_q8_0"], false);
    // The built-in model has a context that is shorter than the table's first.
    assert!(candor(["show"]).text().contains("\n                    512 "), "one row");
}

#[test]
fn an_open_context_is_the_models_own_where_it_fits() {
    let outcome = story(&["-n", "1", "-v"]).outcome();
    assert!(!outcome.stderr.contains("note: ") && outcome.stderr.contains("context: 512 tokens"), "{outcome:?}");
    let wrong = story(&["--fit", "perhaps"]).outcome();
    assert!(wrong.code == 2 && wrong.stderr.contains("expected on or off"), "{wrong:?}");
}
