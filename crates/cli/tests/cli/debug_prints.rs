//! What those see who debug by hand: likely tokens of each step, ranks and verdicts, values of tensors and of traces.

use std::{fs, path::Path};

use candor_gguf::Gguf;
use candor_testing::Tiny;
use serde_json::Value;

use crate::program::{candor, story};

/// A tiny model in a folder, with a tensor changed.
fn tiny(folder: &Path, tensor: &str, change: impl FnOnce(&mut [f32])) {
    let path = folder.join("model.gguf");
    fs::write(&path, Tiny::default().bytes()).unwrap();
    let gguf = Gguf::open(&path).unwrap();
    let info = gguf.tensor(tensor).unwrap();
    let (start, length) = (info.offset() as usize, info.bytes as usize);
    drop(gguf);
    let mut bytes = fs::read(&path).unwrap();
    let values = bytes[start..start + length].chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
    let mut values: Vec<f32> = values.collect();
    change(&mut values);
    let changed: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    bytes[start..start + length].copy_from_slice(&changed);
    fs::write(path, bytes).unwrap();
}

#[test]
fn every_token_comes_with_what_was_likely() {
    let args = ["-n", "4", "--temp", "0", "--logprobs", "2"];
    let plain = story(&args[..4]).text();
    let outcome = story(&args).outcome();
    assert_eq!((outcome.code, &outcome.stdout), (0, &plain), "{outcome:?}");
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| !line.starts_with("using")).collect();
    assert_eq!(lines.len(), 12, "{outcome:?}");
    for (number, lines) in lines.chunks(3).enumerate() {
        assert!(
            lines[0].starts_with(&format!("token {}: ", number + 1)) && lines[0].ends_with(", rank 1"),
            "{lines:?}"
        );
        let id = lines[0].split_whitespace().nth(2).unwrap();
        assert_eq!(lines[1].split_whitespace().next(), Some(id), "the likeliest is chosen: {lines:?}");
    }
    // They are those of `candor logits`.
    let logits = candor(["logits", "-p", crate::program::STORY, "--top", "2", "-t", "1"]).text();
    assert_eq!(lines[1..3], logits.lines().skip(1).collect::<Vec<_>>());
    // None beside it, with and without guesses.
    let alone = story(&["-n", "2", "--temp", "0", "--logprobs", "0", "--prompt-lookup"]).outcome();
    assert_eq!(alone.stderr.lines().filter(|line| line.starts_with("token ")).count(), 2, "{alone:?}");
}

#[test]
fn logprobs_are_json_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probs.jsonl");
    let file = path.to_str().unwrap();
    // A bias chooses what is not likely, and the end of the text.
    let args = ["-n", "1", "-l", "300+90", "--temp", "0", "--logprobs", "3", "--logprobs-output", file];
    let outcome = story(&args).outcome();
    assert!(outcome.code == 0 && !outcome.stderr.contains("token"), "{outcome:?}");
    let line: Value = serde_json::from_str(fs::read_to_string(&path).unwrap().trim()).unwrap();
    assert_eq!(line["id"], 300);
    assert!(line["rank"].as_u64().unwrap() > 3 && line["logprob"].as_f64().unwrap() < -3.0, "{line}");
    let top = line["top_logprobs"].as_array().unwrap();
    let logprobs: Vec<f64> = top.iter().map(|token| token["logprob"].as_f64().unwrap()).collect();
    assert!(top.len() == 3 && logprobs.is_sorted_by(|a, b| a >= b) && logprobs[0] < 0.0, "{line}");
    assert_eq!(top[0]["token"].as_str().unwrap().len(), top[0]["bytes"].as_array().unwrap().len());
    let eos = candor(["show", "--json"]).text();
    let eos = serde_json::from_str::<Value>(&eos).unwrap()["tokenizer"]["eos"].to_string();
    let outcome = story(&["-n", "5", "-l", &format!("{eos}+90"), "--temp", "0", "--logprobs", "1"]).outcome();
    assert!(outcome.stderr.contains("token 1: end of text\n"), "{outcome:?}");
    let usage = story(&["--logprobs-output", file]).outcome();
    assert!(usage.code == 2 && usage.stderr.contains("--logprobs N says how many"), "{usage:?}");
    let missing = folder.path().join("none/probs.jsonl");
    let error = story(&["-n", "1", "--logprobs", "1", "--logprobs-output", missing.to_str().unwrap()]).error();
    assert!(error.contains("probs.jsonl: no such file"), "{error}");
}

#[test]
fn tokens_that_are_asked_for_have_a_rank() {
    let all = candor(["logits", "-p", "Once upon a", "--top", "0"]).text();
    let table: Vec<&str> = all.lines().skip(1).collect();
    // By id, and by text; the last of all is beyond the table.
    let id = |line: &str| line.split_whitespace().next().unwrap().to_owned();
    let (second, last) = (id(table[1]), id(table[table.len() - 1]));
    let args = ["logits", "-p", "Once upon a", "--top", "1", "--token", &second, "--token", " time", "--token", &last];
    let text = candor(args).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(lines[2], format!("{}, rank 2", table[1]));
    assert_eq!(lines[4], format!("{}, rank {}", table[table.len() - 1], table.len()));
    let (_, rank) = lines[3].split_once("' time', rank ").expect("the text of a token");
    assert!(table[rank.parse::<usize>().unwrap() - 1].ends_with("' time'"), "{text}");
    assert!(lines[0].contains(": entropy ") && lines[0].ends_with(" bits, healthy"), "{text}");
    let json = candor(args.into_iter().chain(["--json", "--all"])).text();
    let json: Value = serde_json::from_str(&json).unwrap();
    let after = json.as_array().unwrap().last().unwrap();
    assert_eq!((&after["verdict"]["kind"], &after["asked"][0]["rank"]), (&"healthy".into(), &2.into()));
    assert_eq!(after["asked"][1]["token"], " time");
    assert_eq!(after["top"].as_array().unwrap().len(), 1);
    let error = candor(["logits", "-p", "a", "--token", "Once upon a time, three"]).error();
    assert!(error.contains("no token of the vocabulary has this text\nhint: it is the tokens "), "{error}");
    let error = candor(["logits", "-p", "a", "--token", "99999999"]).error();
    assert!(error.contains("--token 99999999: the vocabulary has "), "{error}");
}

#[test]
fn a_broken_distribution_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let verdict = |tensor: &str, change: fn(&mut [f32])| {
        tiny(folder.path(), tensor, change);
        let outcome = candor(["logits", "model.gguf", "--ids", "1,270,281"]).within(folder.path()).outcome();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let head = outcome.stdout.lines().next().unwrap().to_owned();
        head.split_once(" bits, ").unwrap_or_else(|| panic!("{head}")).1.to_owned()
    };
    let half = |values: &mut [f32]| {
        let from = values.len() / 2;
        values[from..].fill(0.0);
    };
    let tail = format!("all logits from id {} on are 0", Tiny::VOCAB / 2);
    assert_eq!(verdict("output.weight", half), tail);
    assert_eq!(verdict("output.weight", |values| values[0] = f32::NAN), "a logit is NaN");
    assert_eq!(verdict("output_norm.weight", |values| values.fill(1e-6)), "flat: all tokens are about as likely");
    let exploded = "exploded: half of the tokens have no probability that a float can hold";
    assert_eq!(verdict("output_norm.weight", |values| values.fill(1e6)), exploded);
}

#[test]
fn tensors_are_decoded() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path(), "output_norm.weight", |values| {
        values.fill(0.0);
        values[..4].copy_from_slice(&[0.5, -2.0, 1e-7, f32::INFINITY]);
    });
    let show = |args: &str| {
        let args = ["show", "model.gguf"].into_iter().chain(args.split_whitespace());
        candor(args).within(folder.path())
    };
    let text = show("--tensor output_norm.weight --head 3").text();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["tensor", "type", "shape", "rms", "mean", "min", "max", "zeros", "nan", "inf", "first"]);
    let expected = ["output_norm.weight", "F32", "32", "0.370266", "-0.048387", "-2.000000", "0.500000", "87.50", "%"];
    assert_eq!(rows[1][..9], expected, "{text}");
    assert_eq!(rows[1][9..], ["0", "1", "0.500000", "-2.000000", "1.000e-7"], "{text}");
    // Several by a pattern; the first values go on in the next row.
    let json: Value = serde_json::from_str(&show("--tensor blk.?.attn_q.weight --json --head 40").text()).unwrap();
    let tensors = json["tensors"].as_array().unwrap();
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["blk.0.attn_q.weight", "blk.1.attn_q.weight"]);
    assert_eq!(tensors[0]["first"].as_array().unwrap().len(), 40);
    assert!(tensors[0]["rms"].as_f64().unwrap() > 0.0 && tensors[0]["zero_share"] == 0.0, "{json}");
    let error = show("--tensor output_norn.weight").error();
    assert!(error.ends_with("the file has no such tensor\nhint: is output_norm.weight meant?"), "{error}");
}

#[test]
fn traces_have_what_is_within_fusions_and_attention_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path(), "output.weight", |_| ());
    let stats = |args: &str| {
        let args = format!("trace model.gguf --ids 1,270,281,262 -n 2 --stats {args}");
        let text = candor(args.split_whitespace()).within(folder.path()).text();
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect::<Vec<Vec<String>>>()
    };
    let row = |rows: &[Vec<String>], name: &str| rows.iter().find(|row| row[0] == name).cloned();
    let usual = stats("");
    assert!(!usual[0].contains(&"bits".to_owned()) && row(&usual, "kq-0").is_none(), "{usual:?}");
    for name in ["attn_out-0", "ffn_out-1"] {
        let row = row(&usual, name).unwrap_or_else(|| panic!("{name}: {usual:?}"));
        assert_eq!((row[1].as_str(), row[2].as_str(), row.len()), ("6", "32", 13), "{row:?}");
    }
    for planted in ["", "--plant rope-base=1000"] {
        let scores = stats(&format!("--names kq,kq_soft_max-1 {planted}"));
        assert_eq!(
            scores.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(),
            ["value", "kq-0", "kq-1", "kq_soft_max-1"]
        );
        // 4 heads over 6 positions. A row of weights adds up to 1: they are 1/6 each on the average.
        let weights = &scores[3];
        assert_eq!(
            (weights[1].as_str(), weights[2].as_str(), weights[4].as_str()),
            ("6", "24", "0.16667"),
            "{weights:?}"
        );
        let bits: Vec<f64> = weights[10..12].iter().map(|cell| cell.parse().unwrap()).collect();
        let most = (1..=6).map(|seen| f64::from(seen).log2()).sum::<f64>() / 6.0;
        assert!(bits[0] > 0.0 && bits[0] < bits[1] && (bits[1] - most).abs() < 1e-3, "{weights:?}");
    }
    // Both are healthy, and so is what is recorded of the last token alone.
    for flags in ["--names *", "--names kq*,Vcur,attn_out --last-only", "--names * -ub 2 -ctk f32 --device reference"] {
        let args = format!("trace model.gguf --ids 1,270,281,262 -n 2 -o run.safetensors {flags}");
        candor(args.split_whitespace()).within(folder.path()).text();
        let outcome =
            candor(["diagnose", "model.gguf", "--trace", "run.safetensors", "--all"]).within(folder.path()).outcome();
        assert_eq!(outcome.code, 0, "{flags}: {outcome:?}");
        assert!(outcome.stdout.contains("\nkq_soft_max-1 "), "{flags}: {outcome:?}");
    }
}

/// The numbers of a table's column, without the line of names.
fn column(table: &[&str], name: &str) -> Vec<f64> {
    // Cells stand below the end of their column's name.
    let end = table[0].find(&format!(" {name}")).unwrap_or_else(|| panic!("{table:?}")) + 1 + name.len();
    let cell = |line: &&str| line.get(..end.min(line.len()))?.split_whitespace().last()?.parse().ok();
    table[1..].iter().filter_map(cell).collect()
}

#[test]
fn operations_and_layers_have_times() {
    let text = candor(["trace", "-p", "Once upon a time", "--time", "-n", "3", "-t", "1"]).text();
    let layers = candor(["show", "--json"]).text();
    let layers = serde_json::from_str::<Value>(&layers).unwrap()["dimensions"]["layers"].as_u64().unwrap() as usize;
    let blocks: Vec<Vec<&str>> = text.split("\n\n").map(|block| block.lines().collect()).collect();
    assert_eq!(blocks.len(), 5, "two tables of two kinds of passes, and the limits: {text}");
    assert!(blocks[4].concat().contains(" kernels, 1 thread: reads "), "{text}");
    for (blocks, head) in blocks[..4].chunks(2).zip(["prompt: ", "decode: 3 tokens in "]) {
        assert!(blocks[0][0].starts_with(head) && blocks[0][0].ends_with(" ms"), "{text}");
        let (operations, by_layer) = (&blocks[0][1..], &blocks[1]);
        for (name, words) in [("inp_embd", "get_rows"), ("Qcur.mul_mat", "3 mul_mat"), ("kqv_out", "kq, soft_max, kqv")]
        {
            let row = operations.iter().find(|row| row.starts_with(&format!("{name} ")));
            assert!(row.is_some_and(|row| row.contains(&format!("  {words}  "))), "{name}: {text}");
        }
        let whole: f64 = column(operations, "%").iter().sum();
        assert!((whole - 100.0).abs() < 1.5, "{whole}: {text}");
        let figures = column(by_layer, "ms");
        assert!(figures.len() == layers && figures.iter().all(|ms| *ms > 0.0), "{text}");
        for share in ["% read", "% peak"] {
            assert_eq!(column(by_layer, share).len(), layers, "{share}: {text}");
        }
    }
    let outcome = candor(["trace", "-p", "a", "--time", "--stats"]).outcome();
    assert!(outcome.code == 2 && outcome.stderr.contains("cannot be used with"), "{outcome:?}");
}

#[test]
fn benchmarks_say_what_takes_the_time() {
    let bench = |args: &str| {
        candor(["bench", "-p", "16", "-n", "4", "-r", "2", "-t", "1"].into_iter().chain(args.split_whitespace()))
    };
    let text = bench("--ops").text();
    let heads: Vec<&str> = text.lines().filter(|line| line.contains(" in 2 runs, ")).collect();
    assert!(heads.len() == 2, "{text}");
    assert!(heads[0].starts_with("pp16 in 2 runs, prompt: 32 tokens in "), "{text}");
    assert!(heads[1].starts_with("tg4 in 2 runs, decode: 8 tokens in "), "{text}");
    assert!(text.lines().any(|line| line.starts_with("result_output")), "{text}");
    let several = bench("--ops -B 2 -p 0").outcome();
    assert!(several.code == 0 && several.stderr.contains("note: --ops leaves out tg4 x2"), "{several:?}");
    let json = bench("--ops -o json").outcome();
    assert!(json.code == 2 && json.stderr.contains("-o md"), "{json:?}");
}
