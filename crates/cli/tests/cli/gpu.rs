//! The commands on a GPU: on the first that there is, a software one (lavapipe) included. Skipped with a printed reason where
//! there is no GPU.

use std::{fs, sync::Once, time::Duration};

use candor_gguf::{Format, Gguf, Writer};
use candor_testing::{fixtures, has_gpu};
use serde_json::Value;

use crate::{
    devices::gpus,
    program::{Outcome, Program, candor},
};

/// The first GPU's name.
fn gpu() -> Option<String> {
    let gpus = gpus();
    has_gpu(gpus.len()).then(|| gpus[0].clone())
}

/// A folder in which all these commands remember that the GPU computes rightly: to find it out takes seconds.
fn verdicts() -> &'static str {
    static EMPTIED: Once = Once::new();
    let folder = concat!(env!("CARGO_TARGET_TMPDIR"), "/verdicts");
    EMPTIED.call_once(|| drop(fs::remove_dir_all(folder)));
    folder
}

/// A command on a device. Mesa's layer that orders devices complains where there is no screen; it is left out.
fn on(device: &str, args: &[&str]) -> Program {
    let (command, rest) = args.split_first().expect("a command");
    let program = candor([command, "--device", device].iter().chain(rest)).env("NODEVICE_SELECT", "1");
    program.env("XDG_CACHE_HOME", verdicts())
}

/// What a command prints on a GPU, which stderr must name.
fn text(device: &str, args: &[&str]) -> String {
    let outcome = on(device, args).outcome();
    assert_eq!(outcome.code, 0, "{args:?}: {outcome:?}");
    assert!(outcome.stderr.contains(" layers and the output on "), "{args:?}: {outcome:?}");
    outcome.stdout
}

/// The lines that say what is wrong.
fn problem(outcome: &Outcome) -> Vec<&str> {
    outcome.stderr.lines().skip_while(|line| !line.starts_with("error: ")).collect()
}

#[test]
fn answers_and_conversations_are_those_of_the_processor() {
    let Some(gpu) = gpu() else { return };
    let greedy = ["run", "-p", "Once upon a time", "-n", "6", "--temp", "0", "-c", "128"];
    assert_eq!(text(&gpu, &greedy), candor(greedy).text());
    // What is drawn is drawn on the processor, and by the seed: the same every time.
    let drawn = ["run", "-p", "Once upon a time", "-n", "6", "--seed", "5", "-c", "128"];
    assert_eq!(text(&gpu, &drawn), text(&gpu, &drawn));
    let chat = ["chat", "-n", "6", "--temp", "0", "-c", "256"];
    let said = "Hello\nHow are you?\n";
    let outcome = on(&gpu, &chat).stdin(said).outcome();
    assert_eq!((outcome.code, outcome.stdout), (0, candor(chat).stdin(said).text()), "{}", outcome.stderr);
}

#[test]
fn a_kept_prompt_goes_on_on_either_device() {
    let Some(gpu) = gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = |device: &str, file: &str| {
        let path = folder.path().join(file);
        let flags = ["-n", "6", "--temp", "0", "-c", "128", "-v", "--prompt-cache", path.to_str().unwrap()];
        let outcome = on(device, &[&["run", "-p", "Once upon a time"][..], &flags].concat()).outcome();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let line = outcome.stderr.lines().find_map(|line| line.strip_prefix("prompt: ")).expect("a line on the prompt");
        (outcome.stdout, line.starts_with("0 "))
    };
    let (text, _) = run("cpu", "of the processor");
    assert_eq!(run(&gpu, "of the GPU"), (text.clone(), false));
    for file in ["of the processor", "of the GPU"] {
        for device in [&gpu, "cpu"] {
            assert_eq!(run(device, file).0, text, "{file} on {device}");
            assert!(run(device, file).1, "{file} on {device}: nothing is computed again");
        }
    }
}

#[test]
fn a_model_that_cannot_be_divided_says_what_can_be_asked_for() {
    let (Some(gpu), Some(fixtures)) = (gpu(), fixtures()) else { return };
    let path = fixtures.join("arch/rwkv7/model.gguf");
    let run = |layers: &str| {
        let model = path.to_str().unwrap();
        on(&gpu, &["run", model, "-p", "a", "-n", "1", "--raw", "--temp", "0", "-ngl", layers]).outcome()
    };
    let outcome = run("1");
    assert_eq!(
        (outcome.code, problem(&outcome)),
        (
            1,
            vec![
                "error: a model whose layers hand on more than the stream cannot be divided over devices",
                "hint: -ngl all gives all of it to one GPU, -ngl 0 to the processor; -ngl auto chooses",
            ]
        )
    );
    for layers in ["all", "0", "auto"] {
        assert_eq!(run(layers).code, 0, "{layers}");
    }
}

#[test]
fn a_context_that_is_left_open_takes_what_the_layers_leave_of_the_budget() {
    let Some(gpu) = gpu() else { return };
    let shape = candor_testing::Tiny { layers: 4, heads: 32, kv_heads: 32, head_dim: 96, ..Default::default() };
    let mut writer = shape.writer();
    writer.insert("llama.context_length", 131_072u32);
    writer.insert("tokenizer.chat_template", "{% for m in messages %}{{ m.content }} {% endfor %}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.gguf");
    writer.write_file(&path).unwrap();
    let chat = |memory: &str| {
        let flags = ["chat", path.to_str().unwrap(), "--gpu-memory", memory, "--fit-ctx", "2048"];
        let outcome = on(&gpu, &flags).stdin("/stats\n").outcome();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let context = outcome.stderr.lines().find_map(|line| line.strip_prefix("context: 0 of ")).expect("a length");
        (context.split(' ').next().unwrap().parse::<usize>().unwrap(), outcome.stderr)
    };
    // A position takes 4 layers of 32 heads of 96 keys and values in half precision: 49 kB.
    let (tokens, said) = chat("256M");
    assert!((4096..=268_435_456 / 49_152).contains(&tokens), "{tokens}: {said}");
    assert!(said.contains("4 of 4 layers and the output on "), "{said}");
    let note = format!("note: a context of {tokens} tokens, of the model's 131072: there are ");
    assert!(said.contains(&note), "{said}");
    // Not all layers fit beside the shortest context: those that do bound it.
    let (fewer, said) = chat("90M");
    assert!(said.contains(" layers on ") && !said.contains("4 of 4 layers"), "{said}");
    assert!((2048..131_072).contains(&fewer), "{fewer}: {said}");
}

#[test]
fn a_gpu_without_a_name_must_be_hardware() {
    let Some(_) = gpu() else { return };
    let args = ["run", "-p", "Hello", "-n", "2", "--temp", "0"];
    let software = on("gpu", &args).env("CANDOR_GPU_SOFTWARE", "1").outcome();
    assert_eq!((software.code, software.stdout), (0, candor(args).text()), "{}", software.stderr);
    if !candor(["devices"]).text().lines().skip(2).all(|line| line.contains("software, ")) {
        return;
    }
    let outcome = on("gpu", &args).outcome();
    assert_eq!(outcome.code, 1, "{outcome:?}");
    let [problem, hint] = problem(&outcome)[..] else { panic!("{outcome:?}") };
    assert_eq!(problem, "error: device gpu: this machine has none");
    assert!(hint.contains("--device cpu") && hint.contains("emulated"), "{hint}");
}

#[test]
fn figures_and_traces_are_those_of_the_processor() {
    let Some(gpu) = gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let words = path("text.txt");
    fs::write(&words, "There was a cat. The cat was happy. ".repeat(20)).unwrap();
    let args = ["perplexity", "-f", &words, "-c", "64"];
    let value = |text: String| -> f64 { text.split_whitespace().find_map(|word| word.parse().ok()).unwrap() };
    let (here, there) = (value(candor(args).text()), value(text(&gpu, &args)));
    assert!((here - there).abs() < 0.02 * here, "{here} {there}");

    // A trace of the GPU's run has nothing that does not follow from the model.
    let trace = path("run.safetensors");
    text(&gpu, &["trace", "-p", "Once upon", "-o", &trace]);
    let diagnosed = candor(["diagnose", "--trace", &trace]).outcome();
    assert_eq!(diagnosed.code, 0, "{diagnosed:?}");
    let verified = on(&gpu, &["verify", "--quick"]).outcome();
    assert_eq!(verified.code, 0, "{verified:?}");
    assert!(verified.stdout.lines().last().unwrap().starts_with("verified: "), "{verified:?}");
}

#[test]
fn operations_are_timed_on_the_processor_and_kernels_on_a_gpu() {
    let Some(gpu) = gpu() else { return };
    let outcome = on(&gpu, &["trace", "--ids", "1,300", "--time"]).outcome();
    let [problem, hint] = problem(&outcome)[..] else { panic!("{outcome:?}") };
    assert!(problem.ends_with(": single operations are timed on the processor alone"), "{problem}");
    assert!(hint.starts_with("hint: --device cpu"), "{hint}");
    let text = on(&gpu, &["bench", "-ngl", "all", "-p", "4", "-n", "2", "-r", "1", "--ops"]).text();
    for (head, kernel) in [("pp4 in 1 runs, prompt: ", "MatMul"), ("tg2 in 1 runs, decode: ", "MatVec")] {
        let table: Vec<&str> = text.lines().skip_while(|line| !line.starts_with(head)).collect();
        assert!(table.first().is_some_and(|line| line.ends_with(" ms of the GPU")), "{text}");
        let shares = table[2..].iter().map_while(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        assert!((99.0..101.0).contains(&shares.sum()), "{text}");
        assert!(table.iter().any(|line| line.contains(kernel)), "{text}");
    }
}

#[test]
fn benchmarks_name_devices_and_layers() {
    let Some(gpu) = gpu() else { return };
    let args = ["bench", "-ngl", "1,all", "-p", "4", "-n", "0", "-r", "1", "-t", "1"];
    let table = on(&gpu, &args).text();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let at = |heading| rows[0].iter().position(|cell| *cell == heading).unwrap_or_else(|| panic!("{heading}: {table}"));
    assert_eq!(rows.len(), 4, "{table}");
    for (row, layers) in rows[2..].iter().zip(["1", "all"]) {
        assert_eq!((row[at("dev")], row[at("ngl")], row[at("test")]), (&*gpu, layers, "pp4"), "{table}");
        // Of a GPU and the processor together nobody knows what they could do.
        // Nor of cooperative matrices.
        let peak = layers == "all" && table.contains(" TOPS with ");
        assert_eq!((row[at("% read")], row[at("% peak")].is_empty()), ("", !peak), "{table}");
        assert!(!row[at("TOPS")].is_empty(), "{table}");
    }
    let backend = |row: usize| rows[row][at("backend")];
    assert!(backend(2).starts_with("GPU, CPU ") && backend(3) == "GPU", "{table}");
    let notes: Vec<&str> = table.lines().filter(|line| !line.starts_with('|') && line.contains("gpu, ")).collect();
    assert!(notes.len() == 2 && !notes[0].contains(": "), "{table}");
    assert!([": reads ", ": peak "].iter().any(|limit| notes[1].contains(limit)), "{table}");

    let objects = candor(["bench", "-dev", "cpu", "-dev", &gpu, "-p", "2", "-n", "1", "-r", "1", "-o", "jsonl"]).text();
    let objects: Vec<Value> = objects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let backends: Vec<&str> = objects.iter().map(|object| object["backends"].as_str().unwrap()).collect();
    assert_eq!(backends, ["CPU", "CPU", "GPU", "GPU"]);
    assert!(objects[0]["peak_operations_per_s"] != objects[2]["peak_operations_per_s"]);
    for object in &objects {
        let shares = ["share_of_read", "share_of_peak"].map(|share| object[share].is_number());
        let known = ["read_bytes_per_s", "peak_operations_per_s"].map(|limit| object[limit].is_number());
        assert_eq!(shares, [known[0] && object["n_gen"] == 1, known[1] && object["n_gen"] == 0]);
        assert!(object["backends"] == "GPU" && (known[0] || known[1]) || known == [true; 2], "{object}");
    }
    assert!(objects[3]["devices"].as_str().unwrap().starts_with("gpu, ") && objects[3]["n_gpu_layers"] == "auto");
}

#[test]
fn what_cannot_be_is_said_as_on_the_processor() {
    let Some(gpu) = gpu() else { return };
    let long = "a cat and ".repeat(40);
    for args in [
        &["run", "-p", ""][..],
        &["run", "-p", &long, "-c", "16"],
        &["perplexity", "-f", "/dev/null"],
        &["logits", "--ids", "999999"],
    ] {
        let (here, there) = (candor(args).outcome(), on(&gpu, args).outcome());
        assert_eq!((here.code, there.code), (1, 1), "{args:?}: {here:?} {there:?}");
        assert_eq!(problem(&there), problem(&here), "{args:?}");
    }
    // Only the plan differs: more layers than there are is all of them.
    let many = on(&gpu, &["run", "-p", "Hello", "-n", "1", "--temp", "0", "-ngl", "999"]).outcome();
    assert!(many.code == 0 && many.stderr.contains(" layers and the output on "), "{many:?}");
    for layers in ["99999999999999999999", "1.5", ""] {
        let outcome = on(&gpu, &["run", "-p", "Hello", "-ngl", layers]).outcome();
        assert_eq!(outcome.code, 2, "{outcome:?}");
        assert!(outcome.stderr.contains("expected a number of layers, auto or all"), "{outcome:?}");
    }
    for command in ["run", "bench", "verify", "perplexity"] {
        let outcome = on("gpu99", &[command]).stdin("Hello").outcome();
        // `verify` has an exit code of its own where there was no run.
        assert_eq!(outcome.code, if command == "verify" { 2 } else { 1 }, "{outcome:?}");
        let said = problem(&outcome).join("\n");
        assert!(said.starts_with("error: device gpu99: expected one of auto, cpu, gpu, reference"), "{said}");
        assert!(said.ends_with("hint: `candor devices` says what each of them is"), "{said}");
    }
}

#[test]
#[cfg(unix)]
fn ctrl_c_ends_a_prompt_on_a_gpu() {
    use std::{io::BufRead, process::Command, time::Instant};
    let Some(gpu) = gpu() else { return };
    // Small steps, so that the prompt takes half a minute: Ctrl-C does not wait for its end, but perhaps for shaders.
    let long = "a cat and a dog and ".repeat(80);
    let mut program = on(&gpu, &["run", "--raw", "-p", &long, "-n", "1", "-ub", "1", "--temp", "0"]);
    let mut child = program.spawn();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(stderr.any(|line| line.contains(" layers and the output on ")));
    std::thread::sleep(Duration::from_millis(300));
    let sent = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(sent.elapsed() < Duration::from_secs(15), "{:?}", sent.elapsed());
    assert!(output.stdout.iter().all(u8::is_ascii_whitespace), "{output:?}");
    assert!(stderr.all(|line| !line.contains("panicked")));
}

#[test]
#[cfg(target_os = "linux")]
fn without_a_driver_there_is_no_gpu() {
    let bare = |device| {
        let program = on(device, &["run", "-p", "Hello", "-n", "2", "--temp", "0"]);
        program.env("VK_DRIVER_FILES", "/nonexistent").env("VK_ICD_FILENAMES", "/nonexistent").outcome()
    };
    let (auto, gpu) = (bare("auto"), bare("gpu"));
    assert_eq!(auto.code, 0, "{auto:?}");
    assert_eq!(problem(&gpu).first(), Some(&"error: device gpu: this machine has none"), "{gpu:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn drivers_are_loaded_only_where_a_gpu_may_be_taken() {
    // Asked for it, Vulkan's loader says what it does.
    let loud = |args: &[&str]| {
        let outcome = candor(args).env("VK_LOADER_DEBUG", "all").outcome();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        outcome.stderr.contains("Vulkan") || outcome.stderr.contains("vulkan")
    };
    assert!(!loud(&["run", "--device", "cpu", "-p", "Hello", "-n", "1"]));
    assert!(!loud(&["bench", "-p", "1", "-n", "0", "-r", "1", "-t", "1"]));
    if has_gpu(gpus().len()) {
        assert!(loud(&["devices"]));
    }
}

/// The model with some matrices of 64-bit floats.
fn in_doubles(model: &Gguf) -> Writer {
    let mut writer = Writer::new();
    model.metadata().iter().for_each(|(key, value)| writer.insert(key, value.clone()));
    for tensor in model.tensors() {
        let (mut format, mut bytes) = (tensor.format, model.data(tensor).to_vec());
        if tensor.name.contains("attn_q") {
            let mut values = vec![0.0; bytes.len() / format.block_bytes() * format.block_len()];
            format.decode(&bytes, &mut values);
            (format, bytes) =
                (Format::F64, values.into_iter().flat_map(|value| f64::from(value).to_le_bytes()).collect());
        }
        writer.tensor(&tensor.name, format, &tensor.shape, bytes).unwrap();
    }
    writer
}

#[test]
fn formats_that_no_shader_knows_are_refused_or_held_as_halves() {
    let (Some(fixtures), Some(gpu)) = (fixtures(), gpu()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("doubles.gguf");
    in_doubles(&Gguf::open(fixtures.join("arch/llama-wide256/model.gguf")).unwrap()).write_file(&model).unwrap();
    let words = fixtures.join("text/cs336-tinystories_sample.txt");
    let args = ["perplexity", model.to_str().unwrap(), "-f", words.to_str().unwrap(), "-c", "32", "--no-verify"];
    let outcome = on(&gpu, &args).outcome();
    assert_eq!(outcome.code, 1, "{outcome:?}");
    let [problem, hint] = problem(&outcome)[..] else { panic!("{outcome:?}") };
    assert!(problem.contains("F64") && hint.contains("--gpu-dequant"), "{problem} {hint}");
    let value = |text: String| -> f64 { text.split_whitespace().find_map(|word| word.parse().ok()).unwrap() };
    let there = value(text(&gpu, &[&args[..], &["--gpu-dequant"]].concat()));
    let here = value(candor([&args[..], &["--device", "reference"]].concat()).text());
    assert!((here - there).abs() < 0.001 * here, "{here} {there}");
}
