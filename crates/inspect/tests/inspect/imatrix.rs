//! What matrices are multiplied with, against llama-imatrix: `tools/goldens/imatrix.py`.

use std::{fs, path::Path};

use candor::{KvFormat, LoadOptions, Model, Session, SessionOptions, Windows};
use candor_convert::{Imatrix, Importance, Layout};
use candor_inspect::imatrix::{Error, Options, collect, unseen};
use candor_testing::{Tiny, fixtures};

const OPTIONS: Options = Options { process_output: true };

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/imatrix").join(name)
}

fn session(model: &Model) -> Session {
    let options = SessionOptions::default().context(64).ubatch(32).keys(KvFormat::F32).values(KvFormat::F32);
    model.session(&options).unwrap()
}

fn text(model: &Model) -> Vec<u32> {
    let line = |n: usize| format!("Tom saw {n} red balls and {} small dogs near the big tree. ", n % 7);
    model.encode_prompt(&(0..60).map(line).collect::<String>())
}

fn summed(model: &Model, windows: usize, from: usize) -> Imatrix {
    let tokens = text(model);
    let windows = Windows::new(model, &tokens, 64).unwrap().first(windows);
    collect(&mut session(model), &windows, from, OPTIONS, |_, _| Ok::<_, Error>(())).unwrap()
}

#[test]
fn sums_are_those_of_llama_cpp() {
    let Some(fixtures) = fixtures() else { return };
    for arch in ["mixtral", "phi3", "deepseek2-v2", "mamba", "qwen3next", "rwkv7"] {
        let expected = Imatrix::open(&golden(&format!("{arch}.gguf"))).unwrap();
        let model = fixtures.join(format!("arch/{arch}/model.gguf"));
        let model = Model::open(&model, &LoadOptions::default().threads(2)).unwrap();
        let found = summed(&model, 3, 0);
        assert!(unseen(&model, &found).unwrap().is_empty());
        assert_eq!((found.chunks, found.window), (expected.chunks, expected.window));
        assert!(found.entries.keys().eq(expected.entries.keys()), "{arch}");
        for (name, expected) in &expected.entries {
            let found = &found.entries[name];
            assert_eq!(found.counts, expected.counts, "{arch} {name}");
            for (found, expected) in [(&found.squares, &expected.squares), (&found.sums, &expected.sums)] {
                let most = expected.iter().fold(0f32, |most, value| most.max(value.abs()));
                assert_eq!(found.len(), expected.len());
                let close = |(found, expected): (&f32, &f32)| (found - expected).abs() <= 1e-5 * most;
                assert!(found.iter().zip(expected).all(close), "{arch} {name}");
            }
        }
    }
}

#[test]
fn the_older_format_is_that_of_llama_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("imatrix.dat");
    let of_gguf = Imatrix::open(&golden("mixtral.gguf")).unwrap();
    of_gguf.write(&path, Layout::Dat).unwrap();
    let (got, expected) = (fs::read(&path).unwrap(), fs::read(golden("mixtral.dat")).unwrap());
    // A product and a quotient, in another order.
    assert_eq!(got.len(), expected.len());
    let [got, expected] = [&path, &golden("mixtral.dat")].map(|path| Importance::open(path).unwrap());
    assert_eq!((&got.datasets, got.chunks), (&expected.datasets, expected.chunks));
    for (name, expected) in &expected.entries {
        let close = |(got, expected): (&f32, &f32)| (got - expected).abs() <= 1e-6 * expected.abs();
        assert!(got.entries[name].iter().zip(expected).all(close), "{name}");
    }
    let gguf = Importance::from(of_gguf);
    let close = |(got, expected): (&f32, &f32)| (got - expected).abs() <= 1e-6 * expected.abs();
    for (name, expected) in &expected.entries {
        assert!(gguf.entries[name].iter().zip(expected).all(close), "{name}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("imatrix.gguf");
    let written = Imatrix::open(&golden("mixtral.gguf")).unwrap();
    written.write(&path, Layout::Gguf).unwrap();
    assert_eq!(Imatrix::open(&path).unwrap(), written);
}

#[test]
fn runs_add_up() {
    let model = Model::builtin(&LoadOptions::default().threads(2)).unwrap();
    let (all, mut first, second) = (summed(&model, 4, 0), summed(&model, 2, 0), summed(&model, 4, 2));
    first.merge(second).unwrap();
    assert_eq!((first.chunks, first.window), (4, 64));
    for (name, all) in &all.entries {
        let added = &first.entries[name];
        assert_eq!(added.counts, all.counts);
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
        assert!(added.squares.iter().zip(&all.squares).all(close), "{name}");
    }
    let gguf = candor::Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
    let other = summed(&Model::from_gguf(gguf, &LoadOptions::default().threads(1)).unwrap(), 1, 0);
    let error = first.merge(other).unwrap_err().to_string();
    assert!(error.contains("numbers, got"), "{error}");
}

/// A weight that makes everything infinite: the first sum that is no number ends the run.
#[test]
fn what_is_no_number_is_refused() {
    let bytes = Tiny::default().bytes();
    let gguf = candor::Gguf::from_bytes(bytes.clone().into()).unwrap();
    let tensor = gguf.tensor("blk.0.attn_v.weight").unwrap();
    let mut writer = candor_gguf::Writer::new();
    gguf.metadata().iter().for_each(|(key, value)| writer.insert(key, value.clone()));
    for other in gguf.tensors() {
        let mut data = gguf.data(other).to_vec();
        if other.name == tensor.name {
            data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        }
        writer.tensor(&other.name, other.format, &other.shape, data).unwrap();
    }
    let broken = candor::Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap();
    let model = Model::from_gguf(broken, &LoadOptions::default().threads(1)).unwrap();
    let tokens = text(&model);
    let windows = Windows::new(&model, &tokens, 64).unwrap().first(1);
    let error = collect(&mut session(&model), &windows, 0, OPTIONS, |_, _| Ok::<_, Error>(())).unwrap_err();
    assert!(error.to_string().contains("blk.0.attn_output.weight: expected finite numbers, got NaN"), "{error}");
}
