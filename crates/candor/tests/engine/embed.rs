//! Vectors of texts: encoders against Transformers in float64, batches against single texts, pooling, and models that
//! continue texts.

use std::path::Path;

use candor::{Batching, Device, EmbedOptions, Error, LoadOptions, Model, Overlong, Pooling, Scaling, SessionOptions};
use candor_testing::{Random, Tiny, fixtures, ids, json, nmse, npy};

const ENCODERS: &[&str] =
    &["bert", "distilbert", "roberta", "nomic-bert", "jina-bert-v2", "modernbert", "eurobert", "gemma-embedding"];

fn raw() -> EmbedOptions {
    EmbedOptions::default().pooling(Pooling::None).scaling(Scaling::None)
}

fn open(folder: &Path, device: Device) -> Model {
    let options = LoadOptions::default().device(device).batching(Batching::Invariant);
    Model::open(folder.join("model.gguf"), &options).unwrap()
}

fn embed(model: &Model, options: &EmbedOptions, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
    model.embedder(options).unwrap().embed(texts, |_| ()).unwrap()
}

/// Texts of several lengths, cut out of one.
fn cuts(tokens: &[u32]) -> Vec<Vec<u32>> {
    [5, 24, 1, 17, 24, 12, 3].iter().map(|&len| tokens[tokens.len() - len..].to_vec()).collect()
}

#[test]
fn encoders_agree_with_transformers() {
    let Some(fixtures) = fixtures() else { return };
    for name in ENCODERS {
        let folder = fixtures.join("arch").join(name);
        let tokens = ids(&json(&folder.join("tokens.json"))["tokens"]);
        let expected = npy(&folder.join("embeddings_hf.npy"));
        for (device, limit) in [(Device::Reference, 1e-9), (Device::Cpu, 1e-6)] {
            let rows = embed(&open(&folder, device), &raw(), std::slice::from_ref(&tokens));
            let error = nmse(&rows[0], &expected);
            println!("{name:16} {device:?}: NMSE {error:.1e}");
            assert!(error < limit, "{name} {device:?}: {error:e}");
        }
    }
}

#[test]
fn a_text_gives_the_same_alone_and_among_others() {
    let Some(fixtures) = fixtures() else { return };
    for name in ENCODERS.iter().chain(&["llama", "mamba", "lfm2"]) {
        let folder = fixtures.join("arch").join(name);
        let texts = cuts(&ids(&json(&folder.join("tokens.json"))["tokens"]));
        for device in [Device::Reference, Device::Cpu] {
            let model = open(&folder, device);
            // 96 rows are three texts of up to 32 tokens at once.
            let options = raw().rows(96);
            let alone: Vec<Vec<f32>> =
                texts.iter().flat_map(|text| embed(&model, &options, std::slice::from_ref(text))).collect();
            let together = embed(&model, &options, &texts);
            assert_eq!(together, alone, "{name} {device:?}");
            // An embedder that was used before gives the same.
            let mut embedder = model.embedder(&options).unwrap();
            embedder.embed(&texts[..2], |_| ()).unwrap();
            assert_eq!(embedder.embed(&texts, |_| ()).unwrap(), alone, "{name} {device:?} again");
        }
    }
}

#[test]
fn pooled_vectors_are_made_of_the_rows() {
    let Some(fixtures) = fixtures() else { return };
    let folder = fixtures.join("arch/bert");
    let model = open(&folder, Device::Cpu);
    let tokens = ids(&json(&folder.join("tokens.json"))["tokens"]);
    let texts = [tokens];
    let rows = embed(&model, &raw(), &texts).remove(0);
    let dim = model.config().dim;
    let mean: Vec<f32> = (0..dim).map(|i| rows.iter().skip(i).step_by(dim).sum::<f32>() / 24.0).collect();
    for (pooling, expected) in
        [(Pooling::Mean, mean.as_slice()), (Pooling::Cls, &rows[..dim]), (Pooling::Last, &rows[23 * dim..])]
    {
        let options = raw().pooling(pooling);
        assert!(nmse(&embed(&model, &options, &texts)[0], expected) < 1e-12, "{pooling:?}");
        let unit = embed(&model, &options.scaling(Scaling::Norm(2)), &texts).remove(0);
        let length = expected.iter().map(|x| x * x).sum::<f32>().sqrt();
        let scaled: Vec<f32> = expected.iter().map(|x| x / length).collect();
        assert!(nmse(&unit, &scaled) < 1e-12, "{pooling:?}");
    }
}

#[test]
fn a_model_that_continues_texts_gives_its_last_norm() {
    let Some(fixtures) = fixtures() else { return };
    /// Takes `result_norm` of a pass.
    struct Norm(Vec<f32>);
    impl candor::Observer for Norm {
        fn wants(&mut self, name: &'static str, _: Option<usize>) -> bool {
            name == "result_norm"
        }
        fn value(&mut self, observed: &candor::Observed<'_>) {
            self.0.extend_from_slice(observed.values);
        }
    }
    let folder = fixtures.join("arch/llama");
    let model = open(&folder, Device::Cpu);
    let tokens = ids(&json(&folder.join("tokens.json"))["tokens"]);
    let keys = candor::KvFormat::F32;
    let mut session = model.session(&SessionOptions::default().keys(keys).values(keys)).unwrap();
    let mut norm = Norm(Vec::new());
    session.observe(&tokens, candor::Role::Prefill, candor::Logits::Last, &mut norm).unwrap();
    // In one step, and in steps of 7.
    for rows in [512, 7] {
        let options = raw().rows(rows);
        assert_eq!(embed(&model, &options, std::slice::from_ref(&tokens))[0], norm.0, "{rows} rows");
        let last = model.embedder(&options.pooling(None)).unwrap();
        assert_eq!(last.pooling(), Pooling::Last);
        let last = embed(&model, &options.pooling(None), std::slice::from_ref(&tokens));
        assert_eq!(last[0], norm.0[norm.0.len() - model.config().dim..]);
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let Some(fixtures) = fixtures() else { return };
    let model = open(&fixtures.join("arch/bert"), Device::Cpu);
    let error = |result: Result<Vec<Vec<f32>>, Error>| result.unwrap_err().to_string();
    let mut embedder = model.embedder(&raw()).unwrap();
    assert_eq!(
        error(embedder.embed(&[vec![1; 64], vec![1; 65]], |_| ())),
        "text 2 has 65 tokens, the context holds 64"
    );
    assert_eq!(error(embedder.embed(&[vec![]], |_| ())), "text 1 has no tokens");
    assert_eq!(error(embedder.embed(&[vec![512]], |_| ())), "token 512 is outside of the vocabulary of 512");
    let refused = |pooling| model.embedder(&raw().pooling(pooling)).err().unwrap().to_string();
    let missing =
        "metadata key bert.pooling_type is missing: how the vectors of its tokens become the text's is unknown";
    assert_eq!(refused(None), missing);
    let none = "the model is no reranker: it has no tensor cls.weight or cls.output.weight";
    assert_eq!(refused(Some(Pooling::Rank)), none);
    let encoder = "the model (bert) is an encoder: it makes vectors of texts and continues none";
    assert_eq!(model.session(&SessionOptions::default()).err().unwrap().to_string(), encoder);
    assert_eq!(model.sequences(2, &SessionOptions::default()).err().unwrap().to_string(), encoder);
}

#[test]
fn an_overlong_text_is_cut_before_its_end() {
    let Some(fixtures) = fixtures() else { return };
    let model = open(&fixtures.join("arch/bert"), Device::Cpu);
    let eos = model.tokenizer().eos().unwrap();
    let mut random = Random(5);
    let mut long: Vec<u32> = (0..100).map(|_| 10 + random.below(400) as u32).collect();
    let options = raw().overlong(Overlong::Cut);
    assert_eq!(embed(&model, &options, &[long.clone()]), embed(&model, &raw(), &[long[..64].to_vec()]));
    long.push(eos);
    let kept = [&long[..63], &[eos]].concat();
    assert_eq!(embed(&model, &options, &[long]), embed(&model, &raw(), &[kept]));
}

#[test]
fn a_number_that_is_none_is_an_error() {
    let mut writer = Tiny::default().writer();
    writer.insert("llama.attention.layer_norm_rms_epsilon", f32::NAN);
    let gguf = candor::Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap();
    let model = Model::from_gguf(gguf, &LoadOptions::default().device(Device::Cpu)).unwrap();
    let error = model.embedder(&raw()).unwrap().embed(&[vec![1, 2]], |_| ()).unwrap_err();
    assert!(matches!(error, Error::VectorNotFinite { number: 1 }), "{error}");
}
