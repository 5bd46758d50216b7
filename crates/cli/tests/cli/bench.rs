//! `candor bench`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use candor_testing::Tiny;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Program, candor};

/// Tests that are over at once.
const SHORT: [&str; 6] = ["-p", "6", "-n", "3", "-r", "2"];

/// A tiny model of 64 positions, and the folder that it lies in.
fn tiny() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    fs::write(&path, Tiny::default().bytes()).unwrap();
    (folder, path)
}

fn bench(args: &[&str]) -> Program {
    candor(["bench"].iter().chain(args))
}

/// The tests that ran, as objects.
fn tests(args: &[&str]) -> Vec<Value> {
    let text = bench(&[&["-o", "jsonl", "-r", "1", "-t", "1"], args].concat()).text();
    text.lines().map(|line| serde_json::from_str(line).expect("an object per line")).collect()
}

fn names(tests: &[Value]) -> Vec<&str> {
    tests.iter().map(|test| test["test"].as_str().unwrap()).collect()
}

/// The cells of the rows of a table, headings first.
fn rows(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().filter(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn a_table_has_llama_benchs_columns_and_ours() {
    let outcome = bench(&[&SHORT[..], &["-t", "1"]].concat()).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let rows = rows(&outcome.stdout);
    let headings = ["model", "size", "params", "backend", "threads", "test", "t/s", "GB/s", "% read", "TOPS", "% peak"];
    assert_eq!(rows[0], headings);
    assert!(rows[1].iter().all(|cell| cell.starts_with("---")), "{rows:?}");
    assert_eq!(rows.len(), 4, "{rows:?}");
    for (row, test) in rows[2..].iter().zip(["pp6", "tg3"]) {
        assert!(row[0].starts_with("llama ") && row[1].ends_with(" MiB") && row[2].ends_with(" M"), "{row:?}");
        assert!(row[3].starts_with("CPU ") && row[4] == "1" && row[5] == test, "{row:?}");
        let (mean, deviation) = row[6].split_once(" ± ").expect("a mean and a deviation");
        assert!(mean.parse::<f64>().unwrap() > 0.0 && deviation.parse::<f64>().unwrap() >= 0.0, "{row:?}");
        let filled: Vec<bool> = row[7..].iter().map(|cell| !cell.is_empty()).collect();
        assert_eq!(filled, if test == "pp6" { [false, false, true, true] } else { [true, true, false, false] });
    }
    let widths: BTreeSet<usize> =
        outcome.stdout.lines().filter(|line| line.starts_with('|')).map(|line| line.chars().count()).collect();
    assert_eq!(widths.len(), 1, "{}", outcome.stdout);
    assert!(outcome.stdout.contains("\nbuild: ") && outcome.stdout.contains(" 1 thread: reads "), "{}", outcome.stdout);
    assert_eq!(outcome.stderr.lines().count(), 1, "nothing but the note on the model: {}", outcome.stderr);
}

#[test]
fn settings_get_a_column_where_they_are_not_the_usual_ones() {
    for (args, column, values) in [
        (vec!["-ub", "2,512"], "n_ubatch", vec!["2", "512"]),
        (vec!["-b", "4"], "n_batch", vec!["4"]),
        (vec!["-ctk", "f32,f16"], "type_k", vec!["f32", "f16"]),
        (vec!["-ctv", "f32", "-ctv", "f16"], "type_v", vec!["f32", "f16"]),
        (vec!["--fast"], "batching", vec!["fastest"]),
        (vec!["--batch-invariant"], "batching", vec!["invariant"]),
        (vec!["--activations", "f32"], "activations", vec!["f32"]),
        (vec!["-t", "1,2"], "threads", vec!["1", "2"]),
    ] {
        let rows = rows(&bench(&[&["-p", "4", "-n", "0", "-r", "1"], &args[..]].concat()).text());
        let at = rows[0].iter().position(|heading| heading == column).unwrap_or_else(|| panic!("{column}: {rows:?}"));
        assert_eq!(rows[2..].iter().map(|row| row[at].as_str()).collect::<Vec<_>>(), values, "{column}");
        assert_eq!(rows[0].len(), if column == "threads" { 11 } else { 12 }, "{rows:?}");
    }
}

#[test]
fn the_device_hybrid_f32_is_the_processor_with_f32_activations() {
    let lines = bench(&["-p", "4", "-n", "0", "-r", "1", "-o", "jsonl", "--device", "hybrid-f32"]).text();
    let test: Value = serde_json::from_str(&lines).expect("one line");
    assert_eq!(test["activations"], "f32", "{lines}");
    assert!(test["devices"].as_str().is_some_and(|devices| devices.starts_with("cpu, ")), "{lines}");
    assert!(test["isa"].as_str().is_some_and(|isa| isa.ends_with("-f32")), "{lines}");
}

#[test]
fn json_lines_and_csv_say_the_same() {
    let (_folder, path) = tiny();
    let path = path.to_str().unwrap();
    let run = |format| bench(&[&["-m", path, "-o", format, "-t", "1", "-d", "5"], &SHORT[..]].concat()).text();
    let array: Vec<Value> = serde_json::from_str(&run("json")).expect("an array");
    let lines: Vec<Value> = run("jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let csv = run("csv");
    let mut csv = csv.lines();
    let heading: Vec<&str> = csv.next().unwrap().split(',').collect();
    assert_eq!((array.len(), lines.len(), csv.count()), (2, 2, 2));
    let keys = |test: &Value| test.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&array[0]), heading);
    assert_eq!(keys(&array[1]), keys(&lines[0]));
    let test = &array[1];
    for (key, expected) in [
        ("model_filename", Value::from(path)),
        ("n_prompt", 0.into()),
        ("n_gen", 3.into()),
        ("n_depth", 5.into()),
        ("n_parallel", 1.into()),
        ("n_threads", 1.into()),
        ("n_batch", 2048.into()),
        ("n_ubatch", 512.into()),
        ("batching", "by role".into()),
        ("activations", "auto".into()),
        ("type_k", "f16".into()),
        ("test", "tg3 @ d5".into()),
        ("build_version", env!("CARGO_PKG_VERSION").into()),
    ] {
        assert_eq!(test[key], expected, "{key}");
    }
    let number = |key: &str| test[key].as_f64().unwrap_or_else(|| panic!("{key}: {test}"));
    // Three passes: all matrices and norms, one row of the embedding.
    let weights = number("model_size") - 4.0 * 32.0 * (Tiny::VOCAB as f64 - 1.0);
    assert_eq!(number("weight_bytes"), 3.0 * weights);
    // At positions 5 to 7, that is 6 to 8 keys and values: 2 layers of 2 heads of width 8 and 2 bytes.
    assert_eq!(number("kv_bytes"), f64::from((6 + 7 + 8) * 2 * 2 * 8 * 2 * 2));
    assert_eq!(array[0]["kv_bytes"], (6..=11).sum::<u32>() * 2 * 2 * 8 * 2 * 2);
    let samples = |key: &str| -> Vec<f64> {
        test[key].as_array().unwrap().iter().map(|sample| sample.as_f64().unwrap()).collect()
    };
    let (ns, ts) = (samples("samples_ns"), samples("samples_ts"));
    assert_eq!((ns.len(), ts.len()), (2, 2));
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs().max(1e-3);
    assert!(ns.iter().zip(&ts).all(|(ns, ts)| near(3e9 / ns, *ts)), "{test}");
    assert!(near(number("avg_ts"), (ts[0] + ts[1]) / 2.0), "{test}");
    assert!(near(number("stddev_ts"), (ts[0] - ts[1]).abs() / 2f64.sqrt()), "{test}");
    assert!((number("avg_ns") - (ns[0] + ns[1]) / 2.0).abs() <= 1.0, "{test}");
    let bytes = 2e9 * (number("weight_bytes") + number("kv_bytes")) / (ns[0] + ns[1]);
    assert!(near(number("bytes_per_s"), bytes), "{test}");
    assert!(near(number("share_of_read"), bytes / number("read_bytes_per_s")), "{test}");
    assert!(test["operations_per_s"].is_null() && array[0]["bytes_per_s"].is_null());
    let time = test["test_time"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
}

#[test]
fn lists_ranges_and_repetitions_are_expanded() {
    for (args, expected) in [
        (vec!["-p", "1,3", "-n", "0"], vec!["pp1", "pp3"]),
        (vec!["-p", "2-4", "-n", "1"], vec!["pp2", "pp3", "pp4", "tg1"]),
        (vec!["-p", "2-8*2", "-p", "9", "-n", "0"], vec!["pp2", "pp4", "pp8", "pp9"]),
        (vec!["-p", "2-8+3", "-n", "0"], vec!["pp2", "pp5", "pp8"]),
        (vec!["-p", "0", "-n", "2", "-d", "0,4"], vec!["tg2", "tg2 @ d4"]),
        (vec!["-p", "0", "-n", "0", "-pg", "4,2", "-pg", "3,1"], vec!["pp4+tg2", "pp3+tg1"]),
        (vec!["-p", "4", "-n", "2", "-B", "1,3", "-d", "5"], vec!["pp4 @ d5", "tg2 @ d5", "tg2 x3 @ d5"]),
        (vec!["-p", "0", "-n", "0", "-pg", "4,2", "-B", "2"], vec!["pp4+tg2 x2"]),
    ] {
        assert_eq!(names(&tests(&args)), expected, "{args:?}");
    }
    let (_folder, path) = tiny();
    let path = path.to_str().unwrap();
    let models = tests(&["-m", path, "-m", path, "-p", "2", "-n", "0"]);
    assert_eq!(models.len(), 2);
    assert_eq!(tests(&[path, path, path, "-p", "2", "-n", "0"]).len(), 3);
}

#[test]
fn the_defaults_are_llama_benchs() {
    let help = bench(&["--help"]).text();
    let words: Vec<&str> = help.split_whitespace().collect();
    let help = words.join(" ");
    for (flag, default) in [
        ("-p, --n-prompt", "512"),
        ("-n, --n-gen", "128"),
        ("-d, --n-depth", "0"),
        ("-B, --n-parallel", "1"),
        ("-b, --batch-size", "2048"),
        ("--ubatch-size", "512"),
        ("--cache-type-k", "f16"),
        ("-r, --repetitions", "5"),
        ("-o, --output", "md"),
    ] {
        let rest = help.split(flag).nth(1).unwrap_or_else(|| panic!("{flag}: {help}"));
        let given = rest.split("[default: ").nth(1).and_then(|rest| rest.split(']').next());
        assert_eq!(given, Some(default), "{flag}");
    }
}

#[test]
fn the_memory_of_the_weights_is_shown() {
    let (_folder, path) = tiny();
    // Room for several huge pages behind the tensors.
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(24 << 20).unwrap();
    let path = path.to_str().unwrap();
    let system = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let gives = !system.is_empty() && !system.contains("[never]");
    for (flags, mapped, huge, how) in [
        (&[][..], true, false, "mapped, "),
        (&["--no-mmap"], false, false, "read into memory, "),
        (&["--huge-pages"], true, true, "mapped, "),
        (&["--no-mmap", "--huge-pages"], false, true, "read into memory, "),
    ] {
        if huge && !gives {
            let error = bench(&[&[path, "-p", "2", "-n", "0"], flags].concat()).error();
            assert!(error.starts_with("error: huge pages: "), "{error}");
            continue;
        }
        let test = &tests(&[&[path, "-p", "2", "-n", "0"], flags].concat())[0];
        assert_eq!((&test["use_mmap"], &test["huge_pages"]), (&mapped.into(), &huge.into()), "{flags:?}");
        let text = bench(&[&[path, "-p", "2", "-n", "0", "-r", "1"], flags].concat()).text();
        let line = text.lines().find(|line| line.starts_with("weights: "));
        if cfg!(target_os = "linux") {
            let share = test["huge_share"].as_f64().unwrap_or_else(|| panic!("{flags:?}: {test}"));
            let least = if huge && !mapped { 0.2 } else { 0.0 };
            assert!((least..=1.0).contains(&share), "{flags:?}: {share}");
            let shown = line.and_then(|line| line.strip_prefix("weights: ")?.strip_prefix(how));
            let shown = shown.and_then(|rest| rest.strip_suffix(" % in huge pages")?.parse::<f64>().ok());
            let shown = shown.unwrap_or_else(|| panic!("{flags:?}: {text}"));
            assert!((100.0 * least..=100.0).contains(&shown), "{flags:?}: {text}");
        } else {
            assert!(test["huge_share"].is_null() && line.is_none(), "{flags:?}: {text}");
        }
    }
    // It is no file of its own.
    assert!(tests(&["-p", "2", "-n", "0"])[0]["huge_share"].is_null());
    assert!(!bench(&["-p", "2", "-n", "0", "-r", "1"]).text().contains("weights: "));
}

#[test]
fn sequences_share_the_weights_and_count_together() {
    let one = &tests(&["-p", "0", "-n", "4", "--no-warmup"])[0];
    let eight = &tests(&["-p", "0", "-n", "4", "-B", "8"])[0];
    let number = |test: &Value, key: &str| test[key].as_u64().unwrap();
    // Weights are read once for all, except their rows of the embedding; the cache for each.
    assert!(number(eight, "weight_bytes") < number(one, "weight_bytes") * 9 / 8);
    assert_eq!(number(eight, "kv_bytes"), 8 * number(one, "kv_bytes"));
    assert_eq!(number(eight, "operations"), 8 * number(one, "operations"));
    let (ns, ts) = (eight["samples_ns"][0].as_f64().unwrap(), eight["samples_ts"][0].as_f64().unwrap());
    assert!((ts - 32e9 / ns).abs() < 1e-6 * ts, "{eight}");
    assert!(eight["operations_per_s"].is_number() && eight["bytes_per_s"].is_number(), "{eight}");
}

#[test]
fn sequences_that_share_a_prompt_compute_it_once() {
    let [apart, shared] = [&["-n", "0"][..], &["-n", "0", "-pps"]].map(|more| {
        let all = tests(&[&["-p", "0", "-pg", "20,4", "-B", "4", "--no-warmup"], more].concat());
        assert_eq!(all.len(), 1);
        all[0].clone()
    });
    assert_eq!([&apart["test"], &shared["test"]], ["pp20+tg4 x4", "pp20+tg4 x4 shared"]);
    assert_eq!([&apart["prompt_shared"], &shared["prompt_shared"]], [&Value::from(false), &Value::from(true)]);
    let operations = |test: &Value| test["operations"].as_u64().unwrap();
    // 36 tokens in place of 96.
    assert!(operations(&shared) * 2 < operations(&apart), "{shared}");
    let (ns, ts) = (shared["samples_ns"][0].as_f64().unwrap(), shared["samples_ts"][0].as_f64().unwrap());
    assert!((ts - 36e9 / ns).abs() < 1e-6 * ts, "{shared}");
    let deep = &tests(&["-p", "0", "-n", "4", "-d", "9", "-B", "1,2", "-pps", "--no-warmup"]);
    assert_eq!([&deep[0]["test"], &deep[1]["test"]], ["tg4 @ d9", "tg4 x2 @ d9 shared"]);
}

#[test]
fn more_positions_than_the_model_has_are_noted() {
    let (_folder, path) = tiny();
    let path = path.to_str().unwrap();
    let outcome = bench(&["-m", path, "-p", "40", "-n", "0", "-d", "25", "-r", "1"]).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let note = "note: a test needs 65 positions, the model was trained on 64: speeds are right, texts would not be\n";
    assert_eq!(outcome.stderr, note);
    assert_eq!(bench(&["-m", path, "-p", "40", "-n", "0", "-d", "24", "-r", "1"]).outcome().stderr, "");
}

#[test]
fn progress_goes_to_stderr() {
    let outcome = bench(&[&SHORT[..], &["--progress", "always"]].concat()).outcome();
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| line.starts_with("bench: ")).collect();
    assert_eq!(lines.len(), 3, "{outcome:?}");
    assert!(lines[1].starts_with("bench: 1/2: llama ") && lines[1].ends_with(" pp6"), "{lines:?}");
    assert!(!outcome.stdout.contains("bench: "), "{outcome:?}");
}

#[test]
fn wrong_arguments_are_named() {
    for (args, expected) in [
        (["-o", "xml"], "invalid value 'xml' for '--output <FORMAT>'"),
        (["-p", "x"], "invalid value 'x' for '--n-prompt <LIST>': expected numbers or ranges such as 1,2 or 8-64*2"),
        (["-n", "4-1"], "invalid value '4-1' for '--n-gen <LIST>': expected a range that rises"),
        (["-d", "1-9*1"], "invalid value '1-9*1' for '--n-depth <LIST>': expected a range that rises"),
        (["-B", "0"], "invalid value '0' for '--n-parallel <LIST>': expected numbers from 1 to 4096, got 0"),
        (["-b", "0"], "invalid value '0' for '--batch-size <LIST>': expected numbers from 1 to 268435456, got 0"),
        (["-t", "5000"], "invalid value '5000' for '--threads <LIST>': expected numbers from 0 to 1024, got 5000"),
        (
            ["-pg", "512"],
            "invalid value '512' for '--n-prompt-gen <PROMPT,GEN>': expected tokens of a prompt and tokens",
        ),
        (["-ctk", "q3"], "invalid value 'q3' for '--cache-type-k <FORMATS>'"),
        (["-r", "0"], "invalid value '0' for '--repetitions <N>'"),
        (["-p0", "-n0"], "there is nothing to measure: give -p, -n or -pg a number of tokens"),
    ] {
        let outcome = bench(&args).outcome();
        assert_eq!(outcome.code, 2, "{args:?}: {outcome:?}");
        assert!(outcome.stderr.starts_with(&format!("error: {expected}")), "{args:?}: {outcome:?}");
        assert!(outcome.stdout.is_empty(), "{args:?}: {outcome:?}");
    }
    assert!(bench(&["nowhere.gguf"]).error().starts_with("error: nowhere.gguf: no such file"));
    let isa = bench(&["-p", "1", "-n", "0"]).env("CANDOR_ISA", "sse9").error();
    assert!(isa.starts_with("error: instruction set \"sse9\""), "{isa}");
}

#[test]
fn what_was_measured_is_printed_whole_before_an_error() {
    let (_folder, path) = tiny();
    let (path, args) = (path.to_str().unwrap(), ["-p", "2", "-n", "0", "-r", "1", "-o", "json"]);
    let outcome = bench(&[&["-m", path, "-m", "nowhere.gguf"], &args[..]].concat()).outcome();
    assert_eq!(outcome.code, 1, "{outcome:?}");
    let array: Vec<Value> = serde_json::from_str(&outcome.stdout).expect("a whole array");
    assert_eq!(names(&array), ["pp2"]);
    assert!(outcome.stderr.starts_with("error: nowhere.gguf: no such file"), "{outcome:?}");
    let missing = bench(&["-m", "nowhere.gguf", "-o", "json"]).outcome();
    assert_eq!((missing.code, missing.stdout.as_str()), (1, "[\n]\n"));
    let missing = bench(&["-m", "nowhere.gguf"]).outcome();
    assert_eq!((missing.code, missing.stdout.as_str()), (1, ""), "no table without a test");
    assert!(missing.stderr.starts_with("error: nowhere.gguf: no such file"), "{missing:?}");
}

#[test]
fn a_test_that_does_not_fit_into_memory_is_named() {
    // More bytes than a process of today has addresses for.
    let outcome = bench(&["-p", "0", "-n", "1", "-d", "268435456", "-B", "4096"]).outcome();
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| !line.starts_with("note: ")).collect();
    assert_eq!((outcome.code, lines.len()), (1, 3), "{outcome:?}");
    let expected = "error: tg1 x4096 @ d268435456: a context of 268435457 tokens in each of 4096 sequences takes ";
    assert!(lines[1].starts_with(expected), "{outcome:?}");
    assert_eq!(lines[2], "hint: -p, -n, -d and -B say how many positions a test needs");
}

#[test]
fn lists_can_be_set_by_variables_and_the_file() {
    let file = bench(&["-o", "jsonl", "-n", "0", "-r", "1"]).config("n-prompt = [2, \"4-5\"]\nthreads = 1").text();
    let tests: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(names(&tests), ["pp2", "pp4", "pp5"]);
    let variable = bench(&["-n", "0", "-r", "1"]).env("CANDOR_N_PROMPT", "3,7").text();
    assert_eq!(rows(&variable)[2..].iter().map(|row| row[5].as_str()).collect::<Vec<_>>(), ["pp3", "pp7"]);
}

#[test]
fn an_encoder_reads_texts_and_nothing_else() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../candor/tests/goldens/cross-encoder.gguf");
    let model = model.to_str().unwrap();
    let outcome = bench(&[model, "-o", "jsonl", "-p", "6,40", "-n", "3", "-r", "2", "-t", "1"]).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let tests: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(names(&tests), ["pp6", "pp40"]);
    let note = "is an encoder: only prompts of one text are measured\n";
    assert!(outcome.stderr.starts_with("note: bert ") && outcome.stderr.ends_with(note), "{outcome:?}");
    let outcome = bench(&[model, "-p", "100", "-n", "0", "-r", "1"]).outcome();
    let error = "error: pp100: text 1 has 100 tokens, the context holds 64\n";
    assert!(outcome.code == 1 && outcome.stderr.starts_with(error), "{outcome:?}");
}
