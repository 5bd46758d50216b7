//! Divergence against llama-perplexity's figures and file: `tools/goldens/divergence.py`.

use std::{collections::HashMap, fs, path::Path};

use candor::{KvFormat, LoadOptions, Model, Session, SessionOptions, Windows, score};
use candor_inspect::divergence::{Error, Figures, LogitsReader, LogitsWriter, of_file, of_models};
use candor_testing::{Tiny, fixtures};

const LOGITS: &[u8] = include_bytes!("../goldens/divergence.logits");
const FIGURES: &str = include_str!("../goldens/divergence.tsv");

/// What one token's divergence may differ by: a step of the file, where sixteen are cut into 65,535, times a probability of a twentieth.
/// Kernels of AVX2 and of AVX-512 put one logit of 256 on another step, by one; the worst token moves by a third of a step.
const EDGE: f64 = 16.0 / 65_535.0 / 20.0;

fn model(path: &Path) -> Model {
    Model::open(path, &LoadOptions::default().threads(2)).unwrap()
}

/// A session with exact caches for windows of `window` tokens.
fn session(model: &Model, window: usize) -> Session {
    let options = SessionOptions::default().context(window).keys(KvFormat::F32).values(KvFormat::F32);
    model.session(&options).unwrap()
}

fn text(model: &Model) -> Vec<u32> {
    let line = |n: usize| format!("Tom saw {n} red balls and {} small dogs near the big tree. ", n % 7);
    model.encode_prompt((0..60).map(line).collect::<String>().trim_end())
}

/// Keeps what a model says of windows.
fn keep(model: &Model, windows: &Windows<'_>, path: &Path) {
    let mut writer = LogitsWriter::create(path, windows, model.config().vocab).unwrap();
    score(&mut session(model, windows.window()), windows, |logits, _| writer.write(logits).unwrap(), |_, _| ())
        .unwrap();
    writer.finish().unwrap();
}

#[test]
fn the_file_is_that_of_llama_cpp() {
    let Some(fixtures) = fixtures() else { return };
    let model = model(&fixtures.join("models/stories260K-f32.gguf"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logits");
    let tokens = text(&model);
    let windows = Windows::new(&model, &tokens, 32).unwrap().first(2);
    keep(&model, &windows, &path);
    let got = fs::read(&path).unwrap();
    let head = 20 + 4 * windows.tokens().len();
    assert_eq!((got.len(), &got[..head]), (LOGITS.len(), &LOGITS[..head]));
    let row = 8 + 2 * model.config().vocab;
    for (got, expected) in got[head..].chunks_exact(row).zip(LOGITS[head..].chunks_exact(row)) {
        let float = |row: &[u8], at| f32::from_le_bytes(row[at..][..4].try_into().unwrap());
        for at in [0, 4] {
            let (got, expected) = (float(got, at), float(expected, at));
            assert!((got - expected).abs() < 1e-6 * expected.abs(), "{got} {expected}");
        }
        let steps =
            |row: &[u8]| row[8..].as_chunks().0.iter().map(|&step| u16::from_le_bytes(step)).collect::<Vec<_>>();
        assert!(steps(got).iter().zip(steps(expected)).all(|(got, expected)| got.abs_diff(expected) <= 1));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
}

#[test]
fn figures_are_those_of_llama_cpp() {
    let Some(fixtures) = fixtures() else { return };
    let file = |name: &str| model(&fixtures.join(format!("models/stories260K-{name}.gguf")));
    let (base, folder) = (file("f32"), tempfile::tempdir().unwrap());
    let path = folder.path().join("logits");
    let tokens = text(&base);
    keep(&base, &Windows::new(&base, &tokens, 128).unwrap(), &path);
    let mut expected: HashMap<&str, HashMap<&str, f64>> = HashMap::new();
    for line in FIGURES.lines() {
        let [name, figure, value] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        expected.entry(name).or_default().insert(figure, value.parse().unwrap());
    }
    // Units of the last digit, and of quantized files shares: there activations are rounded in another way.
    for (name, units, share) in [("f32", 2.0, 0.0), ("f16", 100.0, 0.0), ("Q8_0", 20.0, 0.1), ("Q4_0", 20.0, 0.1)] {
        let model = file(name);
        let found = of_file(LogitsReader::open(&path).unwrap(), &mut session(&model, 128), |_, _| ()).unwrap();
        for (figure, value) in printed(&found.figures()) {
            let expected = expected[name][figure];
            let (digit, scale) = match figure {
                // Seven digits of a perplexity of 15 are those of 32-bit floats.
                _ if figure.contains("PPL") => (1e-5, 0.1 * expected.abs()),
                _ if figure.ends_with("KLD") => (1e-6, expected.abs()),
                _ => (1e-3, expected.abs()),
            };
            // What rounding moves most: single tokens, and small differences.
            let shaky = ["Max", "Min", "90", "75", "/", "-", "Mean    Δp"].iter().any(|part| figure.contains(part));
            // A token's logit that lies on the edge of two steps of the file is put on either side of it.
            let edge = if figure.ends_with("KLD") && !figure.starts_with("Mean") { EDGE } else { 0.0 };
            let most = units * digit + share * scale + edge;
            assert!(share > 0.0 && shaky || (value - expected).abs() <= most, "{name} {figure}: {value} {expected}");
        }
    }
}

/// Figures under the program's names.
fn printed(figures: &Figures) -> Vec<(&'static str, f64)> {
    let percentile = |values: &[(f64, f64)], share| values.iter().find(|(at, _)| *at == share).unwrap().1;
    let (divergence, change) = (&figures.divergence, &figures.change);
    vec![
        ("Mean PPL(Q)", figures.perplexity.value),
        ("Mean PPL(base)", figures.base_perplexity.value),
        ("Mean ln(PPL(Q)/PPL(base))", figures.log_ratio.value),
        ("Mean PPL(Q)/PPL(base)", figures.ratio.value),
        ("Mean PPL(Q)-PPL(base)", figures.difference.value),
        ("Mean    KLD", divergence.mean.value),
        ("Maximum KLD", divergence.maximum),
        ("90.0%   KLD", percentile(&divergence.percentiles, 90.0)),
        ("Median  KLD", percentile(&divergence.percentiles, 50.0)),
        ("Minimum KLD", divergence.minimum),
        ("Mean    Δp", 100.0 * change.mean.value),
        ("Maximum Δp", 100.0 * change.maximum),
        ("75.0%   Δp", 100.0 * percentile(&change.percentiles, 75.0)),
        ("Minimum Δp", 100.0 * change.minimum),
        ("RMS Δp", 100.0 * figures.change_rms.value),
        ("Same top p", 100.0 * figures.same_top.value),
    ]
}

/// Two models side by side need no file, and nothing of theirs is rounded.
#[test]
fn models_side_by_side() {
    let Some(fixtures) = fixtures() else { return };
    let file = |name: &str| model(&fixtures.join(format!("models/stories260K-{name}.gguf")));
    let (base, other, folder) = (file("f32"), file("Q4_0"), tempfile::tempdir().unwrap());
    let tokens = text(&base);
    let windows = Windows::new(&base, &tokens, 128).unwrap().first(3);
    let found = of_models(&mut session(&base, 128), &mut session(&base, 128), &windows, |_, _| ()).unwrap().figures();
    assert_eq!((found.divergence.maximum, found.divergence.minimum, found.same_top.value), (0.0, 0.0, 1.0));
    let mut heard = Vec::new();
    let found = of_models(&mut session(&base, 128), &mut session(&other, 128), &windows, |so_far, windows| {
        heard.push((so_far.windows(), windows));
    });
    let found = found.unwrap().figures();
    assert_eq!(heard, [(1, 3), (2, 3), (3, 3)]);
    for (model, perplexity) in [(&base, found.base_perplexity), (&other, found.perplexity)] {
        let alone = score(&mut session(model, 128), &windows, |_, _| (), |_, _| ()).unwrap();
        assert!((alone.value - perplexity.value).abs() < 1e-9 * alone.value, "{alone:?} {perplexity:?}");
        assert!((alone.error - perplexity.error).abs() < 1e-9, "{alone:?} {perplexity:?}");
    }
    let path = folder.path().join("logits");
    keep(&base, &windows, &path);
    let kept = of_file(LogitsReader::open(&path).unwrap(), &mut session(&other, 128), |_, _| ()).unwrap().figures();
    let (kept, found) = (kept.divergence.mean.value, found.divergence.mean.value);
    assert!((kept - found).abs() < 1e-4 * found, "{kept} {found}");
}

#[test]
fn wrong_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logits");
    let refusal = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        LogitsReader::open(&path).unwrap_err().to_string()
    };
    assert!(refusal(b"_logits_").contains("expected the 20 bytes of a head, got 8"));
    assert!(refusal(&[b"GGUF".as_slice(), &[0; 40]].concat()).contains("does not begin with _logits_"));
    let error = refusal(&LOGITS[..LOGITS.len() - 1]);
    assert!(
        error.contains("expected 31236 bytes for 2 windows of 32 tokens, 512 in the vocabulary, got 31235"),
        "{error}"
    );
    // What it says of its size is not believed before it is there.
    let huge = [&LOGITS[..8], &[0xff; 12], &LOGITS[20..]].concat();
    assert!(refusal(&huge).contains("4294967295 windows of 4294967295 tokens"));
    let mut outside = LOGITS.to_vec();
    outside[20..24].copy_from_slice(&512u32.to_le_bytes());
    assert!(refusal(&outside).contains("token 512 of its text is outside of its vocabulary of 512"));
    fs::write(&path, LOGITS).unwrap();
    let gguf = candor::Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
    let other = Model::from_gguf(gguf, &LoadOptions::default().threads(1)).unwrap();
    let error = of_file(LogitsReader::open(&path).unwrap(), &mut session(&other, 32), |_, _| ()).unwrap_err();
    assert!(matches!(error, Error::Vocabulary { base: 512, .. }), "{error}");
}
