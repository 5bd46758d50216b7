//! Files made of files: against those that llama-quantize made, and what is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use candor_convert::{Error, FileType, Importance, Mix, Options, Plan};
use candor_gguf::{Format, Gguf, Split, Value, Writer};

/// A folder of a test's own.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("candor-convert-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

fn options(kind: FileType) -> Options {
    Options {
        mix: Some(Mix::new(kind)),
        importance: None,
        importance_file: String::new(),
        requantize: false,
        prune: Vec::new(),
        overrides: Vec::new(),
    }
}

fn write(file: &Gguf, options: Options, path: &Path, threads: usize) -> Result<(), Error> {
    Plan::new(file, options)?.write_file(path, threads, Arc::new(|_, _| true))
}

/// A model of two layers, whose weights are `value` of layer, row and column.
fn model(value: impl Fn(usize, usize, usize) -> f32) -> Writer {
    let mut writer = Writer::new();
    writer.insert("general.architecture", "llama");
    for (key, number) in [("block_count", 2u32), ("attention.head_count", 8), ("attention.head_count_kv", 8)] {
        writer.insert(format!("llama.{key}"), number);
    }
    let mut add = |name: &str, layer: usize, shape: &[u64]| {
        let cols = shape[0] as usize;
        let count = shape.iter().product::<u64>() as usize;
        let values = (0..count).flat_map(|i| value(layer, i / cols, i % cols).to_le_bytes());
        writer.tensor(name, Format::F32, shape, values.collect::<Vec<u8>>()).expect("a tensor");
    };
    add("token_embd.weight", 0, &[256, 8]);
    for layer in 0..2 {
        add(&format!("blk.{layer}.attn_norm.weight"), layer, &[256]);
        add(&format!("blk.{layer}.attn_q.weight"), layer, &[256, 40]);
        add(&format!("blk.{layer}.ffn_up.weight"), layer, &[64, 16]);
        add(&format!("blk.{layer}.ffn_down_exps.weight"), layer, &[256, 4, 3]);
    }
    writer
}

fn smooth(layer: usize, row: usize, col: usize) -> f32 {
    ((row * 31 + col * 7 + layer * 13) % 97) as f32 / 97.0 - 0.5
}

fn opened(writer: &Writer) -> Gguf {
    Gguf::from_bytes(writer.to_bytes().expect("writes")).expect("reads")
}

#[test]
fn files_are_llama_quantizes_tensor_by_tensor() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    let folder = folder("fixtures");
    let models = [
        ("stories260K-wide256", "Q8_0 Q2_K Q3_K_M Q4_K_M Q5_K_M Q6_K IQ4_XS F16"),
        ("stories260K", "IQ4_NL Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K_M"),
    ];
    for (name, kinds) in models {
        let source = Gguf::open_unmapped(fixtures.join(format!("models/{name}-f32.gguf"))).expect("a fixture");
        for kind in kinds.split(' ') {
            let path = folder.join("made.gguf");
            write(&source, options(FileType::named(kind).expect("a kind")), &path, 2).expect("writes");
            let made = Gguf::open(&path).expect("reads");
            let theirs = Gguf::open(fixtures.join(format!("models/{name}-{kind}.gguf"))).expect("a fixture");
            assert_eq!(made.tensors().len(), theirs.tensors().len());
            for tensor in theirs.tensors() {
                let ours = made.tensor(&tensor.name).expect("the same names");
                assert_eq!((ours.format, &ours.shape), (tensor.format, &tensor.shape), "{kind}: {}", tensor.name);
                assert!(made.data(ours) == theirs.data(tensor), "{name}, {kind}: {}", tensor.name);
            }
            for key in ["general.file_type", "general.quantization_version"] {
                assert_eq!(made.metadata().get(key), theirs.metadata().get(key), "{kind}: {key}");
            }
        }
    }
}

#[test]
fn no_number_of_threads_changes_a_byte() {
    let file = opened(&model(smooth));
    let folder = folder("threads");
    let bytes = [1, 2, 5].map(|threads| {
        let path = folder.join(format!("{threads}.gguf"));
        write(&file, options(FileType::Q4KM), &path, threads).expect("writes");
        std::fs::read(path).expect("the file")
    });
    assert!(bytes[0] == bytes[1] && bytes[1] == bytes[2]);
}

#[test]
fn rows_that_are_no_whole_blocks_get_what_stands_in() {
    let plan = Plan::new(&opened(&model(smooth)), options(FileType::Q4KM)).expect("a plan");
    let find = |name: &str| plan.tensors().iter().find(|tensor| tensor.name == name).expect("a tensor").choice;
    let up = find("blk.0.ffn_up.weight");
    assert_eq!((up.format, up.instead_of), (Format::Q5_0, Some(Format::Q4K)));
    let query = find("blk.0.attn_q.weight");
    assert_eq!((query.format, query.instead_of), (Format::Q4K, None));
    assert_eq!(find("blk.0.attn_norm.weight").format, Format::F32);
    // The embeddings are the head, too.
    assert_eq!(find("token_embd.weight").format, Format::Q6K);
}

#[test]
fn what_is_asked_for_by_name_wins() {
    let mut mix = Mix::new(FileType::Q4KM);
    mix.name("ffn_down", Format::Q8_0).unwrap();
    mix.name(r"blk\.1\..*", Format::Q6K).unwrap();
    assert!(mix.name("(", Format::Q6K).is_err());
    mix.embedding = Some(Format::F16);
    let asked = Options { mix: Some(mix), ..options(FileType::Q4KM) };
    let plan = Plan::new(&opened(&model(smooth)), asked).expect("a plan");
    let formats: Vec<(&str, Format)> =
        plan.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor.choice.format)).collect();
    let expected = [
        ("token_embd.weight", Format::F16),
        ("blk.0.attn_norm.weight", Format::F32),
        ("blk.0.attn_q.weight", Format::Q4K),
        ("blk.0.ffn_up.weight", Format::Q5_0),
        ("blk.0.ffn_down_exps.weight", Format::Q8_0),
        ("blk.1.attn_norm.weight", Format::F32),
        ("blk.1.attn_q.weight", Format::Q6K),
        ("blk.1.ffn_up.weight", Format::Q8_0),
        ("blk.1.ffn_down_exps.weight", Format::Q8_0),
    ];
    assert_eq!(formats, expected);
}

#[test]
fn layers_are_left_out_and_the_others_move_up() {
    let file = opened(&model(smooth));
    let path = folder("pruned").join("pruned.gguf");
    let pruned = Options {
        prune: vec![0],
        overrides: vec![("general.name".into(), Value::from("short"))],
        ..options(FileType::F32)
    };
    write(&file, pruned, &path, 2).expect("writes");
    let made = Gguf::open(&path).expect("reads");
    assert_eq!(made.metadata().u32("llama.block_count").unwrap(), Some(1));
    assert_eq!(made.metadata().str("general.name").unwrap(), Some("short"));
    assert_eq!(made.tensors().len(), 5);
    let (now, before) = (made.tensor("blk.0.attn_q.weight").unwrap(), file.tensor("blk.1.attn_q.weight").unwrap());
    assert!(made.data(now) == file.data(before));
    let error = Plan::new(&file, Options { prune: vec![2], ..options(FileType::F32) }).err().expect("refused");
    assert_eq!(error.to_string(), "layer 2 can't be left out: there are 2");
}

#[test]
fn a_split_model_stays_split() {
    let folder = folder("split");
    let paths = model(smooth).write_shards(folder.join("in"), Split::Tensors(4)).expect("writes");
    let file = Gguf::open_unmapped(&paths[0]).expect("reads");
    let plan = Plan::new(&file, options(FileType::Q8_0)).expect("a plan");
    let made = plan.write_shards(&folder.join("out"), 2, Arc::new(|_, _| true)).expect("writes");
    assert_eq!(made.len(), 3);
    let (split, whole) = (Gguf::open(&made[2]).expect("reads"), folder.join("whole.gguf"));
    plan.write_file(&whole, 2, Arc::new(|_, _| true)).expect("writes");
    let whole = Gguf::open(whole).expect("reads");
    for (a, b) in split.tensors().iter().zip(whole.tensors()) {
        assert!(
            a.name == b.name && a.shard() == file.tensor(&a.name).unwrap().shard() && split.data(a) == whole.data(b)
        );
    }
}

#[test]
fn what_would_be_worse_is_refused() {
    let folder = folder("refused");
    let file = opened(&model(smooth));
    let path = folder.join("q8.gguf");
    write(&file, options(FileType::Q8_0), &path, 2).expect("writes");
    let quantized = Gguf::open(&path).expect("reads");
    let refused = |file: &Gguf, options: Options| match write(file, options, &folder.join("out.gguf"), 2) {
        Err(error) => error.to_string(),
        Ok(()) => panic!("it is made"),
    };
    let again = "token_embd.weight is quantized already (Q8_0)";
    assert_eq!(refused(&quantized, options(FileType::Q4_0)), again);
    write(&quantized, Options { requantize: true, ..options(FileType::Q4_0) }, &folder.join("q4.gguf"), 2)
        .expect("asked for");
    let unmade = || {
        let mut mix = Mix::new(FileType::Q8_0);
        mix.name("attn_q", Format::Q8K).unwrap();
        Options { mix: Some(mix), ..options(FileType::Q8_0) }
    };
    assert_eq!(refused(&file, unmade()), "blk.0.attn_q.weight: Q8_K can be read and not made");
    for (kind, format) in [(FileType::Iq1S, "IQ1_S"), (FileType::Iq1M, "IQ1_M"), (FileType::Iq2Xxs, "IQ2_XXS")] {
        let message = format!("blk.0.attn_q.weight: {format} needs an importance matrix");
        assert_eq!(refused(&file, options(kind)), message);
    }
    assert_eq!(refused(&file, options(FileType::Q2KS)), "blk.0.attn_q.weight: Q2_K needs an importance matrix");
    for bad in [f32::NAN, f32::INFINITY] {
        let broken = |layer, row, col| if (layer, row, col) == (1, 33, 5) { bad } else { smooth(layer, row, col) };
        let message = format!("blk.1.attn_q.weight: expected finite numbers, got {bad} in row 33");
        assert_eq!(refused(&opened(&model(broken)), options(FileType::Q4KM)), message);
    }
    assert!(!folder.join("out.gguf").exists() && std::fs::read_dir(&folder).unwrap().count() == 2);
}

/// Each kind of IQ1, IQ2 and IQ3, which needs importance or gains by it: the formats of its mixture, with numbers near the source's.
#[test]
fn kinds_with_codebooks_are_made() {
    let folder = folder("codebooks");
    let file = opened(&model(smooth));
    let mut importance = Importance::default();
    for tensor in file.tensors() {
        let columns = (tensor.shape[0] * tensor.shape.get(2).copied().unwrap_or(1)) as usize;
        importance.entries.insert(tensor.name.clone(), vec![1.0; columns]);
    }
    let name = "blk.0.attn_q.weight";
    let mut source = vec![0.0; 256 * 40];
    Format::F32.decode(&file.data(file.tensor(name).unwrap()), &mut source);
    for (kind, format, most) in [
        ("IQ1_S", Format::Iq1S, 0.35),
        ("IQ1_M", Format::Iq1M, 0.35),
        ("IQ2_XXS", Format::Iq2Xxs, 0.2),
        ("IQ2_XS", Format::Iq2Xs, 0.2),
        ("IQ2_S", Format::Iq2Xs, 0.2),
        ("IQ2_M", Format::Iq2S, 0.2),
        ("IQ3_XXS", Format::Iq2S, 0.2),
        ("IQ3_XS", Format::Iq3Xxs, 0.1),
        ("IQ3_S", Format::Iq3S, 0.1),
        ("IQ3_M", Format::Iq3S, 0.1),
    ] {
        let kind = FileType::named(kind).expect("a kind");
        let mut mix = Mix::new(kind);
        mix.importance = true;
        let path = folder.join("out.gguf");
        let asked = Options { mix: Some(mix), importance: Some(importance.clone()), ..options(kind) };
        write(&file, asked, &path, 2).expect("writes");
        let made = Gguf::open(&path).expect("reads");
        let tensor = made.tensor(name).expect("a tensor");
        assert_eq!(tensor.format, format, "{kind:?}");
        let mut decoded = vec![0.0; source.len()];
        format.decode(&made.data(tensor), &mut decoded);
        let square = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>();
        let error = square(&mut source.iter().zip(&decoded).map(|(a, b)| a - b)) / square(&mut source.iter().copied());
        assert!(error < most, "{kind:?}: {error}");
    }
}

#[test]
fn cancelling_leaves_no_file() {
    let folder = folder("cancelled");
    let file = opened(&model(smooth));
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let done = Arc::new(move |_, _| counted.fetch_add(1, Ordering::Relaxed) < 3);
    let plan = Plan::new(&file, options(FileType::Q4KM)).expect("a plan");
    assert!(matches!(plan.write_file(&folder.join("out.gguf"), 2, done), Err(Error::Cancelled)));
    assert_eq!(calls.load(Ordering::Relaxed), 4);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

/// Each expert has its own columns, and a row that counts for nothing elsewhere is kept best where it counts.
#[test]
fn importance_is_of_each_expert() {
    let folder = folder("experts");
    let file = opened(&model(smooth));
    let name = "blk.0.ffn_down_exps.weight";
    let values: Vec<f32> = (0..3 * 256).map(|i| if (i / 256 + i % 3) % 3 == 0 { 100.0 } else { 0.01 }).collect();
    let mut importance = Importance::default();
    importance.entries.insert(name.to_owned(), values.clone());
    let mut mix = Mix::new(FileType::Q2K);
    (mix.pure, mix.importance) = (true, true);
    let path = folder.join("out.gguf");
    let asked = Options { mix: Some(mix), importance: Some(importance), ..options(FileType::Q2K) };
    write(&file, asked, &path, 2).expect("writes");
    let made = Gguf::open(&path).expect("reads");
    let (ours, source) = (made.data(made.tensor(name).unwrap()), file.data(file.tensor(name).unwrap()));
    let mut row = [0.0; 256];
    for (number, (bytes, source)) in ours.chunks(84).zip(source.chunks(1024)).enumerate() {
        Format::F32.decode(source, &mut row);
        let mut expected = [0; 84];
        Format::Q2K.encode_by(&row, Some(&values[number / 4 * 256..][..256]), &mut expected).unwrap();
        assert_eq!(bytes, expected, "row {number}");
    }
    let mut short = Importance::default();
    short.entries.insert(name.to_owned(), vec![1.0; 256]);
    let error = Plan::new(&file, Options { importance: Some(short), ..options(FileType::Q2K) }).err().expect("refused");
    assert_eq!(error.to_string(), format!("importance of {name}: expected 768 numbers, got 256"));
}
