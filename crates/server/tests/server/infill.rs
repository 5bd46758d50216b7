//! The middle of a text: the prompt is llama.cpp's, and the answer that of a session.

use candor::{BatchOptions, Encode, Engine, GenerateOptions, Gguf, LoadOptions, Model, Sampling, SessionOptions};
use candor_server::{Config, Loaded, Ready, Work};
use candor_testing::Tiny;
use serde_json::{Value, json};

use crate::{
    client::post,
    serving::{CONTEXT, Server, listen, start, wait},
};

const PREFIX: u32 = 290;
const SUFFIX: u32 = 291;
const MIDDLE: u32 = 292;
const REPOSITORY: u32 = 293;
const FILE: u32 = 294;

/// A model that knows of the middle of texts, and of files, if it does.
fn filling(files: bool) -> Model {
    let mut writer = Tiny::default().writer();
    let files = if files { &[("rep", REPOSITORY), ("sep", FILE)][..] } else { &[] };
    for (name, id) in [("pre", PREFIX), ("suf", SUFFIX), ("mid", MIDDLE)].iter().chain(files) {
        writer.insert(format!("tokenizer.ggml.fim_{name}_token_id"), *id);
    }
    let gguf = Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap();
    Model::from_gguf(gguf, &LoadOptions::default().threads(1)).unwrap()
}

fn serve(files: bool) -> Server {
    let server = listen(Config::default(), move || {
        let engine = Engine::new(filling(files).batch(&BatchOptions::default().context(CONTEXT)).unwrap(), 16);
        let work = Work::Answers(engine);
        Ok(Loaded::Ready(Box::new(Ready { work, template: None, diagnose: None })))
    });
    wait(&server);
    server
}

#[test]
fn the_middle_is_filled_in() {
    for files in [true, false] {
        let (server, model) = (serve(files), filling(files));
        let text = |text: &str| model.tokenizer().encode(text, Encode::text());
        let extra = json!([{ "filename": "a.h", "text": "int a;" }, { "text": "int b;" }]);
        let mut body =
            json!({ "input_prefix": "int main ", "prompt": "with", "input_suffix": " end", "input_extra": extra });
        let end = [&[PREFIX][..], &text("int main "), &text("with"), &[SUFFIX], &text(" end"), &[MIDDLE]].concat();
        let snip = text("\n\n--- snip ---\n\n");
        let expected = match files {
            true => {
                let repository = [&[1, REPOSITORY][..], &text("myproject\n")].concat();
                let first = [&[FILE][..], &text("a.h\n"), &text("int a;"), &[FILE], &text("tmp\n"), &text("int b;")];
                [repository, first.concat(), [&[FILE][..], &text("filename\n")].concat(), end.clone()].concat()
            }
            false => [&[1][..], &snip, &text("int a;"), &snip, &text("int b;"), &end].concat(),
        };
        for (name, value) in [("n_predict", json!(12)), ("temperature", json!(0)), ("return_tokens", json!(true))] {
            body[name] = value;
        }
        let reply = post(server.address, "/infill", &body).json();
        assert_eq!(reply["tokens_evaluated"], expected.len(), "{reply}");
        let mut session = model.session(&SessionOptions::default().context(CONTEXT)).unwrap();
        let options = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(12);
        let pieces: Vec<_> = session.generate(&expected, options).unwrap().map(|piece| piece.unwrap()).collect();
        let tokens: Vec<u32> = pieces.iter().filter_map(|piece| piece.token).collect();
        assert_eq!((&reply["tokens"], tokens.is_empty()), (&json!(tokens), false));
        body["stream"] = true.into();
        let events = post(server.address, "/infill", &body).events();
        let streamed: String = events.iter().filter_map(|event| event["content"].as_str()).collect();
        assert_eq!(reply["content"], streamed.as_str());
        body["stream"] = false.into();
        for (field, value, param) in [
            ("input_prefix", Value::Null, "input_prefix"),
            ("input_suffix", json!(3), "input_suffix"),
            ("input_extra", json!({}), "input_extra"),
            ("input_extra", json!([{ "filename": "a" }]), "input_extra[0].text"),
            ("input_extra", json!([{ "filename": 3, "text": "a" }]), "input_extra[0].filename"),
            ("prompt", json!([1]), "prompt"),
            ("other", json!(1), "other"),
        ] {
            let mut body = body.clone();
            body[field] = value;
            let reply = post(server.address, "/infill", &body);
            assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &param.into()), "{reply:?}");
        }
        server.end().unwrap();
    }
    // A model that does not know of it.
    let server = start(Config::default(), 1);
    let reply = post(server.address, "/infill", &json!({ "input_prefix": "a", "input_suffix": "b" }));
    assert_eq!(reply.status, 501, "{reply:?}");
    server.end().unwrap();
}
