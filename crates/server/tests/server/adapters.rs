//! LoRA adapters of a request and of the server: answers are those of a session with the same scales.

use std::sync::Arc;

use candor::{
    Adapter, BatchOptions, ChatTemplate, Engine, GenerateOptions, Gguf, LoadOptions, Model, Sampling, SessionOptions,
};
use candor_server::{Config, Loaded, Ready, Work};
use candor_testing::{Lora, Tiny};
use serde_json::{Value, json};

use crate::{
    client::{get, post, send},
    serving::{CONTEXT, Server, listen, start, wait},
};

/// A model with two adapters, of which the second is off.
fn adapted() -> Model {
    let model = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
    let adapter = |name: &str, seed: u64, scale: f32| {
        let made =
            Lora { rank: 3, alpha: 24.0, seed }.gguf(&model, |name| name.contains("attn_") || name.contains("ffn_"));
        Adapter::from_gguf(name, made).unwrap().scaled(scale)
    };
    let adapters = vec![adapter("first.gguf", 5, 1.0), adapter("second.gguf", 6, 0.0)];
    Model::from_gguf(model, &LoadOptions::default().threads(1).adapters(adapters)).unwrap()
}

fn serve() -> Server {
    let server = listen(Config::default(), || {
        let options = BatchOptions::default().sequences(3).kept(8).context(CONTEXT).rows(64);
        let work = Work::Answers(Engine::new(adapted().batch(&options).unwrap(), 16));
        let template = ChatTemplate::named("chatml").map(Arc::new);
        Ok(Loaded::Ready(Box::new(Ready { work, template, diagnose: None })))
    });
    wait(&server);
    server
}

fn alone(prompt: &str, scales: [f32; 2]) -> String {
    let model = adapted();
    let mut session = model.session(&SessionOptions::default().context(CONTEXT)).unwrap();
    session.scale_adapters(&scales).unwrap();
    let options = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(24);
    let pieces = session.generate(&model.encode_prompt(prompt), options).unwrap();
    pieces.map(|piece| piece.unwrap().text).collect()
}

/// The list of adapters that has these scales.
fn list(scales: &[(usize, f64)]) -> Value {
    scales.iter().map(|(id, scale)| json!({ "id": id, "scale": scale })).collect()
}

#[test]
fn a_request_chooses_its_adapters() {
    let server = serve();
    let prompt = "the cat sat on the mat, and the dog on the log. ".repeat(8);
    let choices =
        [([1.0, 0.0], list(&[(0, 1.0)])), ([0.0, 0.0], list(&[(1, 0.0)])), ([0.5, 1.5], list(&[(1, 1.5), (0, 0.5)]))];
    let expected = choices.each_ref().map(|(scales, _)| alone(&prompt, *scales));
    assert!(expected[0] != expected[1] && expected[1] != expected[2] && expected[0] != expected[2], "{expected:?}");
    let mut body = json!({ "prompt": prompt, "max_tokens": 24, "temperature": 0 });
    let cached = |reply: &Value| reply["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    // What memory holds of other scales is no beginning; what it holds of the same is.
    for turn in 0..2 {
        for ((_, lora), expected) in choices.iter().zip(&expected) {
            body["lora"] = lora.clone();
            let reply = post(server.address, "/v1/completions", &body).json();
            assert_eq!(reply["choices"][0]["text"], expected.as_str(), "{lora}");
            assert_eq!(cached(&reply) > 0, turn > 0, "{lora}: {}", cached(&reply));
        }
    }
    // Beside each other in the same steps.
    let address = server.address;
    let asked = choices.clone().map(|(_, lora)| {
        let mut body = body.clone();
        (body["lora"], body["cache_prompt"]) = (lora, false.into());
        std::thread::spawn(move || post(address, "/v1/completions", &body).json()["choices"][0]["text"].clone())
    });
    assert_eq!(asked.map(|asked| asked.join().unwrap()), expected.each_ref().map(|text| json!(text)));
    // The server's own, where a request does not say.
    body["lora"] = json!([]);
    let text = |body: &Value| post(address, "/v1/completions", body).json()["choices"][0]["text"].clone();
    let scales = || get(address, "/lora-adapters").json();
    let shown = |first: f64, second: f64| json!([{ "id": 0, "path": "first.gguf", "scale": first }, { "id": 1, "path": "second.gguf", "scale": second }]);
    assert_eq!((scales(), text(&body)), (shown(1.0, 0.0), json!(expected[0])));
    assert_eq!(post(address, "/lora-adapters", &choices[2].1).status, 200);
    assert_eq!((scales(), text(&body)), (shown(0.5, 1.5), json!(expected[2])));
    assert_eq!(post(address, "/lora-adapters", &json!([])).status, 200);
    assert_eq!((scales(), text(&body)), (shown(0.0, 0.0), json!(expected[1])));
    for wrong in [
        json!(1),
        json!({}),
        list(&[(2, 1.0)]),
        json!([{ "id": 0 }]),
        json!([{ "id": 0, "scale": "x" }]),
        json!([{ "id": -1, "scale": 1 }]),
        json!([{ "id": 0, "scale": 1e300 }]),
    ] {
        assert_eq!(post(address, "/lora-adapters", &wrong).status, 400, "{wrong}");
        body["lora"] = wrong.clone();
        let reply = post(address, "/completion", &body);
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &"lora".into()), "{wrong}");
    }
    assert_eq!(send(address, "POST", "/lora-adapters", &[], "{").status, 400);
    assert_eq!(scales(), shown(0.0, 0.0), "what is refused changes nothing");
    server.end().unwrap();
    let server = start(Config::default(), 1);
    assert_eq!(get(server.address, "/lora-adapters").json(), json!([]));
    server.end().unwrap();
}
