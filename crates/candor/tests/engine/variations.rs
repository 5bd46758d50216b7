//! Files with other metadata than the fixtures have, old ones that lack keys among them: what llama.cpp computes, or a refusal.

use candor::{Device, EmbedOptions, LoadOptions, Model, Pooling, Scaling, SessionOptions};
use candor_gguf::{Array, Gguf, Value, Writer};
use candor_models::Decoder;
use candor_ops::{KvFormat, Shapes};
use candor_testing::{fixtures, ids, nmse};
use serde_json::Value as Json;

const DEVICES: [Device; 2] = [Device::Reference, Device::Cpu];

/// The fixture with some keys set and some left out, and a tensor under another name once more, or nothing where there are no fixtures.
fn varied(fixture: &str, set: &Json, left_out: &[&str], copied: Option<&[Json]>) -> Option<Gguf> {
    let file = Gguf::open(fixtures()?.join("arch").join(fixture).join("model.gguf")).unwrap();
    let arch = file.metadata().str("general.architecture").unwrap().unwrap();
    let key = |rest: &str| format!("{arch}.{rest}");
    let left_out: Vec<String> = left_out.iter().map(|rest| key(rest)).collect();
    let mut writer = Writer::new();
    for (name, value) in file.metadata().iter().filter(|(name, _)| !left_out.iter().any(|other| other == name)) {
        writer.insert(name, value.clone());
    }
    for (rest, value) in set.as_object().unwrap() {
        let value = match value {
            Json::Array(numbers) => {
                Value::Array(Array::I32(numbers.iter().map(|number| number.as_i64().unwrap() as i32).collect()))
            }
            Json::Bool(flag) => Value::from(*flag),
            Json::String(text) => Value::from(text.as_str()),
            Json::Number(number) if number.is_f64() => Value::from(number.as_f64().unwrap() as f32),
            other => Value::from(other.as_u64().unwrap() as u32),
        };
        writer.insert(key(rest), value);
    }
    let gone = |name: &str| name.rsplit_once('.').is_some_and(|(name, _)| left_out.contains(&key(name)));
    let experts = set["expert_count"].as_u64();
    for info in file.tensors().iter().filter(|info| !gone(&info.name)) {
        let (mut shape, mut bytes) = (info.shape.clone(), file.data(info).to_vec());
        let of_experts = info.name.contains("_exps.") || info.name.contains("ffn_gate_inp.");
        // The same experts again.
        if let (Some(experts), Some(count)) = (experts.filter(|_| of_experts), shape.last_mut()) {
            bytes = bytes.repeat((experts / *count) as usize);
            *count = experts;
        }
        if let Some([Json::String(old), Json::String(new)]) = copied {
            let name = info.name.replace(&format!(".{old}."), &format!(".{new}."));
            if name != info.name {
                writer.tensor(&name, info.format, &shape, bytes.clone()).unwrap();
            }
        }
        writer.tensor(&info.name, info.format, &shape, bytes).unwrap();
    }
    Some(Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap())
}

fn open(gguf: Gguf, device: Device) -> Result<Model, candor::Error> {
    Model::from_gguf(gguf, &LoadOptions::default().device(device).threads(1))
}

/// The last token's vector, or every eighth of its logits.
fn last(model: &Model, tokens: &[u32]) -> Vec<f32> {
    if model.is_encoder() {
        let raw = EmbedOptions::default().pooling(Pooling::None).scaling(Scaling::None);
        let rows = model.embedder(&raw).unwrap().embed(&[tokens.to_vec()], |_| ()).unwrap().remove(0);
        return rows[rows.len() - model.config().dim..].to_vec();
    }
    let exact = SessionOptions::default().context(256).keys(KvFormat::F32).values(KvFormat::F32);
    let mut session = model.session(&exact).unwrap();
    session.evaluate(tokens).unwrap();
    session.logits().iter().copied().step_by(8).collect()
}

#[test]
fn variations_give_what_llama_cpp_gives() {
    let golden: Json = serde_json::from_str(include_str!("../goldens/variations.json")).unwrap();
    let tokens = ids(&golden["tokens"]);
    let mut failures = Vec::new();
    for case in golden["variations"].as_array().unwrap() {
        let fixture = case["fixture"].as_str().unwrap();
        let left_out: Vec<&str> =
            case["left_out"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
        let expected: Vec<f32> = case["last"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
        let name = format!("{fixture} with {} without {left_out:?}", case["set"]);
        let copied = case["copied"].as_array().map(Vec::as_slice);
        for device in DEVICES {
            let Some(gguf) = varied(fixture, &case["set"], &left_out, copied) else { return };
            let error = nmse(&last(&open(gguf, device).unwrap(), &tokens), &expected);
            println!("{name} {device:?}: NMSE {error:.1e}");
            // llama.cpp's GELU is a table of halves.
            if error.is_nan() || error >= 2e-6 {
                failures.push(format!("{name} {device:?}: {error:e}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn variations_that_are_not_computed_are_refused_by_name() {
    let cases = [
        ("gemma4", r#"{}"#, "attention.sliding_window", "metadata key gemma4.attention.sliding_window is missing"),
        (
            "gpt-oss",
            r#"{"rope.freq_base_swa": 500.0}"#,
            "",
            "metadata key gpt-oss.rope.freq_base_swa: expected what rope.freq_base is, got 500",
        ),
        (
            "gemma3",
            r#"{"attention.causal": false}"#,
            "",
            "gemma3.attention.causal: false is not supported where layers have windows",
        ),
        (
            "lfm2",
            r#"{"attention.causal": false}"#,
            "",
            "lfm2.attention.causal: false is not supported where layers have convolutions",
        ),
        (
            "deepseek2-v3",
            r#"{"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}"#,
            "rope.scaling.yarn_log_multiplier",
            "metadata key deepseek2.rope.scaling.yarn_log_multiplier is missing",
        ),
        ("modernbert", r#"{"hidden_activation": "relu"}"#, "", "modern-bert.hidden_activation: relu is not supported"),
        ("llama", r#"{}"#, "blk.1.ffn_gate", "tensor blk.1.ffn_gate.weight is missing"),
    ];
    for (fixture, set, left_out, message) in cases {
        let Some(gguf) = varied(fixture, &serde_json::from_str(set).unwrap(), &[left_out], None) else { return };
        let error = open(gguf, Device::Cpu).err().unwrap_or_else(|| panic!("{fixture} {set} runs"));
        assert!(error.to_string().contains(message), "{fixture}: {error}");
    }
}

/// A file lacks a tensor that llama.cpp does not load it without: it is refused, by that name or, where others of its layer mean
/// nothing without it, by theirs.
#[test]
fn what_llama_cpp_needs_is_missed() {
    let golden: Json = serde_json::from_str(include_str!("../goldens/variations.json")).unwrap();
    let Some(folder) = fixtures() else { return };
    let (mut failures, mut seen, mut exact) = (Vec::new(), 0, 0);
    for (fixture, needed) in golden["needed"].as_object().unwrap() {
        let file = Gguf::open(folder.join("arch").join(fixture).join("model.gguf")).unwrap();
        for missing in needed.as_array().unwrap().iter().map(|name| name.as_str().unwrap()) {
            let mut writer = Writer::new();
            file.metadata().iter().for_each(|(name, value)| {
                writer.insert(name, value.clone());
            });
            for info in file.tensors().iter().filter(|info| info.name != missing) {
                writer.tensor(&info.name, info.format, &info.shape, file.data(info).to_vec()).unwrap();
            }
            let gguf = Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap();
            seen += 1;
            match Decoder::<Shapes>::check(&gguf, 1) {
                Ok(_) => failures.push(format!("{fixture} runs without {missing}")),
                Err(error) => exact += usize::from(error.to_string() == format!("tensor {missing} is missing")),
            }
        }
    }
    println!("{exact} of {seen} by their names");
    assert!(seen > 1400 && exact >= 1379, "{exact} of {seen} by their names");
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The first files of Gemma 2 do not say how far its layers look back.
#[test]
fn an_old_gemma_2_has_its_window() {
    let Some(gguf) = varied("gemma2", &serde_json::json!({}), &["attention.sliding_window"], None) else { return };
    assert_eq!(open(gguf, Device::Cpu).unwrap().config().window, Some(4096));
}
