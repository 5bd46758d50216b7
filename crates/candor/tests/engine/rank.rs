//! A reranker against Transformers in float64, and what becomes of its head.

use std::path::Path;

use candor::{Device, EmbedOptions, LoadOptions, Model, Pooling};
use candor_gguf::{Format, Gguf, Writer};
use candor_testing::{Tiny, ids, json};

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name)
}

fn load(gguf: Gguf, device: Device) -> Model {
    Model::from_gguf(gguf, &LoadOptions::default().device(device)).unwrap()
}

fn near(got: &[f32], expected: &[f64], limit: f64) -> bool {
    got.len() == expected.len() && got.iter().zip(expected).all(|(&a, b)| (f64::from(a) - b).abs() < limit)
}

#[test]
fn a_cross_encoder_scores_as_in_transformers() {
    let pairs = json(&golden("cross-encoder.json"))["pairs"].as_array().unwrap().clone();
    for device in [Device::Reference, Device::Cpu] {
        let model = load(Gguf::open(golden("cross-encoder.gguf")).unwrap(), device);
        let mut embedder = model.embedder(&EmbedOptions::default()).unwrap();
        assert_eq!((embedder.pooling(), embedder.width()), (Pooling::Rank, 2));
        let text = |pair: &serde_json::Value, key: &str| pair[key].as_str().unwrap().to_owned();
        let encoded: Vec<Vec<u32>> = pairs
            .iter()
            .map(|pair| embedder.model().encode_pair(&text(pair, "query"), &text(pair, "document")).unwrap())
            .collect();
        let expected: Vec<Vec<u32>> = pairs.iter().map(|pair| ids(&pair["ids"])).collect();
        assert_eq!(encoded, expected);
        for (pair, got) in pairs.iter().zip(embedder.embed(&encoded, |_| ()).unwrap()) {
            let expected: Vec<f64> = pair["scores"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
            assert!(near(&got, &expected, 2e-6), "{device:?} {pair}: {got:?}");
        }
    }
}

/// A model that continues texts and has a head of `rows`, all tensors by `weight`.
fn judge(arch: &'static str, rows: &[Vec<f32>]) -> Writer {
    let mut writer = Tiny { arch, ..Tiny::default() }.writer();
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    writer.tensor("cls.output.weight", Format::F32, &[32, rows.len() as u64], bytes).unwrap();
    writer.insert(format!("{arch}.pooling_type"), 4u32);
    if arch == "qwen3" {
        for name in (0..2).flat_map(|layer| ["q", "k"].map(|x| format!("blk.{layer}.attn_{x}_norm.weight"))) {
            writer.tensor(&name, Format::F32, &[8], 1f32.to_le_bytes().repeat(8)).unwrap();
        }
    }
    writer
}

#[test]
fn a_judge_answers_with_shares_of_its_last_token() {
    let rows: Vec<Vec<f32>> =
        (0..2).map(|row| (0..32).map(|i| ((i * 7 + row * 5) % 11) as f32 / 11.0).collect()).collect();
    let tokens = [vec![1, 300, 301, 302]];
    for (arch, is_shares) in [("qwen3", true), ("llama", false)] {
        let model = load(Gguf::from_bytes(judge(arch, &rows).to_bytes().unwrap()).unwrap(), Device::Cpu);
        let got = model.embedder(&EmbedOptions::default()).unwrap().embed(&tokens, |_| ()).unwrap().remove(0);
        let last = EmbedOptions::default().pooling(Pooling::Last).scaling(candor::Scaling::None);
        let last = model.embedder(&last).unwrap().embed(&tokens, |_| ()).unwrap().remove(0);
        let product = |row: &Vec<f32>| row.iter().zip(&last).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum::<f64>();
        let mut expected: Vec<f64> = rows.iter().map(product).collect();
        if is_shares {
            let sum: f64 = expected.iter().map(|x| x.exp()).sum();
            expected.iter_mut().for_each(|x| *x = x.exp() / sum);
        }
        assert!(near(&got, &expected, 1e-5), "{arch}: {got:?} {expected:?}");
    }
}

#[test]
fn a_template_puts_query_and_document_together() {
    let mut writer = judge("qwen3", &[vec![0.1; 32], vec![0.2; 32]]);
    writer.insert("tokenizer.chat_template.rerank", "q{query}d{document}e");
    let model = load(Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap(), Device::Cpu);
    let embedder = model.embedder(&EmbedOptions::default()).unwrap();
    let plain = |text| model.tokenizer().encode(text, candor::Encode { bos: false, specials: true });
    assert_eq!(embedder.model().encode_pair("a", "b").unwrap(), plain("qadbe"));
    assert_eq!(embedder.model().encode_pair("{document}", "{query}").unwrap(), plain("q{document}d{query}e"));
}
