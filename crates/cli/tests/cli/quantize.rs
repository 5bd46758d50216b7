//! `candor quantize`: what it makes runs, what it refuses it says.

use std::{fs, path::Path};

use crate::program::{STORY, candor};

/// A file of F32 weights; the built-in model is quantized already.
fn floats() -> Option<String> {
    let path = candor_testing::fixtures()?.join("models/stories260K-wide256-f32.gguf");
    Some(path.to_str().expect("an ASCII path").to_owned())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_made_runs() {
    let Some(input) = floats() else { return };
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("q8.gguf");
    let output = output.to_str().unwrap();
    let text = candor(["quantize", &input, output, "q8_0", "2"]).text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("model size: ") && lines[0].ends_with("(32.00 bits per weight)"), "{text}");
    assert!(lines[1].starts_with("quant size: ") && lines[1].contains("(8.5"), "{text}");
    assert_eq!(names(folder.path()), ["q8.gguf"]);
    let answer = |model: &str| {
        candor(["run", model, "--raw", "-p", STORY, "-n", "8", "--temp", "0", "-t", "1", "--device", "cpu"]).text()
    };
    assert_eq!(answer(output), answer(&input));
}

#[test]
fn a_dry_run_prints_each_tensor_and_writes_nothing() {
    let Some(input) = floats() else { return };
    let folder = tempfile::tempdir().unwrap();
    let text = candor(["quantize", "--dry-run", "--tensor-type", "attn_k=q8_0", &input, "Q4_K_M"])
        .within(folder.path())
        .text();
    let line =
        |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(line("blk.0.attn_k.weight ").contains("F32 -> Q8_0"), "{text}");
    assert!(line("blk.0.attn_q.weight ").contains("F32 -> Q4_K"), "{text}");
    assert!(line("blk.0.attn_norm.weight ").contains(" F32 "), "{text}");
    assert!(line("quant size: ").ends_with("bits per weight)"), "{text}");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn wrong_words_have_a_hint() {
    let error = candor(["quantize", "in.gguf", "out.gguf", "Q4KM"]).error();
    assert_eq!(error, "error: Q4KM is no type of file\nhint: is Q4_K_M meant?");
    let error = candor(["quantize", "in.gguf", "out.gguf", "x"]).error();
    assert!(error.contains("the types are Q1_0, Q2_0, Q4_0"), "{error}");
    for (words, expected) in [
        (&["quantize", "in.gguf", "Q4_K_M"][..], "expected the file to write and a type"),
        (&["quantize", "in.gguf", "out.gguf"], "expected the file to write and a type"),
        (&["quantize", "in.gguf", "out.gguf", "Q4_K_M", "many"], "expected a number of threads, got many"),
        (&["quantize", "in.gguf", "out.gguf", "Q4_K_M", "--output-tensor-type", "q6k"], "is Q6_K meant?"),
        (&["quantize", "in.gguf", "out.gguf", "Q4_K_M", "--tensor-type", "q6_k"], "expected NAME=FORMAT"),
    ] {
        let outcome = candor(words).outcome();
        assert!(outcome.code == 2 && outcome.stderr.contains(expected), "{words:?}: {outcome:?}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let Some(input) = floats() else { return };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("model.gguf");
    fs::copy(&input, &copy).unwrap();
    let before = fs::read(&copy).unwrap();
    let copy = copy.to_str().unwrap();
    let error = candor(["quantize", copy, copy, "Q8_0"]).error();
    assert!(
        error
            .ends_with("a file can't be written over the one that it is made of\nhint: give the new file another name")
    );
    assert!(fs::read(copy).unwrap() == before);
    let small = folder.path().join("q8.gguf");
    let small = small.to_str().unwrap();
    candor(["quantize", copy, small, "Q8_0"]).text();
    let other = folder.path().join("q4.gguf");
    let other = other.to_str().unwrap();
    let error = candor(["quantize", small, other, "Q4_0"]).error();
    assert!(error.contains("is quantized already (Q8_0)") && error.contains("--allow-requantize"), "{error}");
    for (kind, format) in [("IQ2_XXS", "IQ2_XXS"), ("IQ1_M", "IQ1_M"), ("Q2_K_S", "Q2_K")] {
        let error = candor(["quantize", copy, other, kind]).error();
        let expected = format!("{format} needs an importance matrix");
        assert!(error.contains(&expected) && error.contains("--imatrix FILE"), "{error}");
    }
    assert_eq!(names(folder.path()), ["model.gguf", "q8.gguf"]);
}

/// Ctrl-C while a file is written, which takes longer than the signal.
#[cfg(unix)]
#[test]
fn ctrl_c_leaves_no_file() {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use candor_gguf::{Format, Writer};

    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.gguf");
    let mut writer = Writer::new();
    writer.insert("general.architecture", "llama");
    writer.insert("llama.block_count", 1u32);
    let wave = |i: u32| ((i.wrapping_mul(2_654_435_761) >> 9) as f32 / (1 << 22) as f32 - 1.0).to_le_bytes();
    let weights: Vec<u8> = (0..4096 * 4096).flat_map(wave).collect();
    writer.tensor("blk.0.ffn_up.weight", Format::F32, &[4096, 4096], weights).unwrap();
    writer.write_file(&input).unwrap();
    let mut program = candor(["quantize", "in.gguf", "out.gguf", "Q4_K_M", "1"]).within(folder.path());
    // The scalar encoder takes seconds.
    program.command.env("CANDOR_ISA", "scalar");
    let mut child = program.spawn();
    let begun = Instant::now();
    while names(folder.path()).len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was begun");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(folder.path()), ["in.gguf"]);
}
