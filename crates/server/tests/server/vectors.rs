//! Vectors are those of an embedder, to the bit, and scores those of another program.

use std::{path::PathBuf, thread};

use candor::{EmbedOptions, LoadOptions, Model, Pooling, Scaling};
use candor_server::Config;
use candor_testing::json;
use serde_json::{Value, json};

use crate::{
    client::{Reply, post},
    serving::{start, start_vectors},
};

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../candor/tests/goldens/cross-encoder.gguf")
}

/// A small reranker, of which vectors can be had, too.
pub fn encoder() -> Model {
    Model::open(golden(), &LoadOptions::default().threads(1)).unwrap()
}

fn mean() -> EmbedOptions {
    EmbedOptions::default().pooling(Pooling::Mean)
}

pub fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

/// What an embedder makes of one text alone.
pub fn alone(text: &str, options: EmbedOptions) -> Vec<f32> {
    let mut embedder = encoder().embedder(&options).unwrap();
    embedder.embed(&[embedder.encode(text)], |_| ()).unwrap().remove(0)
}

fn error(reply: &Reply, status: u16) -> Value {
    assert_eq!(reply.status, status, "{reply:?}");
    reply.json()["error"].clone()
}

#[test]
fn vectors_are_those_of_an_embedder() {
    let server = start_vectors(encoder(), mean());
    let address = server.address;
    let texts = ["cats sleep all day", "paris", "the capital of france is paris"];
    let reply = post(address, "/v1/embeddings", &json!({ "model": "any", "input": texts })).json();
    let tokens: usize = texts.iter().map(|text| encoder().encode_prompt(text).len()).sum();
    assert_eq!((&reply["object"], &reply["usage"]["prompt_tokens"]), (&"list".into(), &tokens.into()));
    for (n, text) in texts.iter().enumerate() {
        assert_eq!(reply["data"][n]["index"], n);
        let expected = alone(text, mean());
        assert_eq!(numbers(&reply["data"][n]["embedding"]), expected, "{text}");
        // Alone, by its ids, and in base64.
        for input in [json!(text), json!(encoder().encode_prompt(text)), json!([encoder().encode_prompt(text)])] {
            let one = post(address, "/v1/embeddings", &json!({ "input": input, "encoding_format": "float" })).json();
            assert_eq!((one["data"].as_array().unwrap().len(), &one["data"][0]["object"]), (1, &"embedding".into()));
            assert_eq!(numbers(&one["data"][0]["embedding"]), expected);
        }
        let body = json!({ "input": text, "encoding_format": "base64", "dimensions": 24 });
        let coded = post(address, "/v1/embeddings", &body).json()["data"][0]["embedding"].clone();
        assert_eq!(decoded(coded.as_str().unwrap()), expected);
        // llama.cpp's form, and its lengths.
        for (normalize, scaling) in
            [(-1, Scaling::None), (0, Scaling::Max), (1, Scaling::Norm(1)), (2, Scaling::Norm(2))]
        {
            let own = post(address, "/embedding", &json!({ "content": text, "embd_normalize": normalize })).json();
            assert_eq!(numbers(&own[0]["embedding"][0]), alone(text, mean().scaling(scaling)), "{normalize}");
        }
    }
    server.end().unwrap();
}

#[test]
fn each_token_has_a_vector_without_pooling() {
    let options = EmbedOptions::default().pooling(Pooling::None);
    let server = start_vectors(encoder(), options);
    let reply = post(server.address, "/embeddings", &json!({ "input": ["cats sleep", "paris"] })).json();
    let rows = reply[0]["embedding"].as_array().unwrap();
    assert_eq!(rows.iter().flat_map(numbers).collect::<Vec<_>>(), alone("cats sleep", options));
    // [CLS] cats sleep [SEP]
    assert_eq!((rows.len(), rows[0].as_array().unwrap().len(), &reply[1]["index"]), (4, 24, &1.into()));
    error(&post(server.address, "/v1/embeddings", &json!({ "input": "cats" })), 400);
    server.end().unwrap();
}

#[test]
fn requests_beside_each_other_get_their_own_vectors() {
    let server = start_vectors(encoder(), mean());
    let address = server.address;
    let clients: Vec<_> = (0..6usize)
        .map(|n| {
            thread::spawn(move || {
                let texts: Vec<String> = (0..1 + 11 * n).map(|i| "cats sleep ".repeat(1 + (i + n) % 9)).collect();
                let reply = post(address, "/v1/embeddings", &json!({ "input": texts })).json();
                assert_eq!(reply["data"].as_array().unwrap().len(), texts.len());
                for (i, text) in texts.iter().enumerate() {
                    assert_eq!(numbers(&reply["data"][i]["embedding"]), alone(text, mean()), "{n} {i}");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    server.end().unwrap();
}

#[test]
fn documents_are_sorted_by_the_scores_of_another_program() {
    let server = start_vectors(encoder(), EmbedOptions::default());
    let golden = json(&golden().with_extension("json"));
    let pairs = golden["pairs"].as_array().unwrap();
    let query = &pairs[0]["query"];
    let own: Vec<&Value> = pairs.iter().filter(|pair| pair["query"] == *query).collect();
    let documents: Vec<&Value> = own.iter().map(|pair| &pair["document"]).collect();
    assert!(documents.len() > 1);
    let jina = json!({ "query": query, "documents": documents, "return_documents": true });
    let reply = post(server.address, "/v1/rerank", &jina).json();
    let results = reply["results"].as_array().unwrap();
    assert_eq!(results.len(), documents.len());
    for result in results {
        let n = result["index"].as_u64().unwrap() as usize;
        let (score, expected) = (result["relevance_score"].as_f64().unwrap(), own[n]["scores"][0].as_f64().unwrap());
        assert!((score - expected).abs() < 1e-5, "{result}, expected {expected}");
        assert_eq!(result["document"]["text"], *documents[n]);
    }
    assert!(results.is_sorted_by(|a, b| a["relevance_score"].as_f64() >= b["relevance_score"].as_f64()), "{reply}");
    assert!(reply["usage"]["prompt_tokens"].as_u64().unwrap() > 0);
    let mut best = jina.clone();
    (best["top_n"], best["return_documents"]) = (1.into(), false.into());
    let best = post(server.address, "/rerank", &best).json()["results"].clone();
    let first = json!({ "index": results[0]["index"], "relevance_score": results[0]["relevance_score"] });
    assert_eq!(best, json!([first]));
    let tei = post(server.address, "/rerank", &json!({ "query": query, "texts": documents })).json();
    for (tei, jina) in tei.as_array().unwrap().iter().zip(results) {
        assert_eq!((&tei["index"], &tei["score"]), (&jina["index"], &jina["relevance_score"]));
    }
    // Scores are no vectors.
    assert_eq!(
        error(&post(server.address, "/v1/embeddings", &json!({ "input": "a" })), 501)["type"],
        "not_supported_error"
    );
    for (field, value) in [
        ("query", json!(1)),
        ("documents", json!([])),
        ("documents", json!([1])),
        ("top_n", json!(0)),
        ("rank_fields", json!(["a"])),
    ] {
        let mut body = jina.clone();
        body[field] = value;
        assert_eq!(error(&post(server.address, "/rerank", &body), 400)["param"], field);
    }
    for (field, value) in [("raw_scores", json!(false)), ("truncate", json!(true)), ("top_n", json!("1"))] {
        let mut body = json!({ "query": query, "texts": documents });
        body[field] = value;
        assert_eq!(error(&post(server.address, "/rerank", &body), 400)["param"], field);
    }
    server.end().unwrap();
}

#[test]
fn what_makes_no_vector_is_refused() {
    let server = start_vectors(encoder(), mean());
    let address = server.address;
    for (field, value) in [
        ("input", Value::Null),
        ("input", json!([])),
        ("input", json!({})),
        ("dimensions", json!(12)),
        ("encoding_format", json!("int8")),
        ("embd_normalize", json!(-2)),
        ("truncate", json!(true)),
    ] {
        let mut body = json!({ "input": "cats" });
        body[field] = value;
        assert_eq!(error(&post(address, "/v1/embeddings", &body), 400)["param"], field, "{body}");
    }
    let long = error(&post(address, "/v1/embeddings", &json!({ "input": ["cats", "cats ".repeat(70)] })), 400);
    assert_eq!((&long["type"], &long["n_prompt_tokens"]), (&"exceed_context_size_error".into(), &72.into()), "{long}");
    assert!(long["message"].as_str().unwrap().starts_with("text 2 has 72 tokens"), "{long}");
    error(&post(address, "/v1/embeddings", &json!({ "input": [[1_000_000]] })), 400);
    error(&post(address, "/v1/embeddings", &json!({ "input": [[]] })), 400);
    // Each model does what it can.
    for path in ["/v1/completions", "/v1/chat/completions", "/completion"] {
        assert_eq!(error(&post(address, path, &json!({ "prompt": "a" })), 501)["type"], "not_supported_error");
    }
    error(&post(address, "/rerank", &json!({ "query": "a", "documents": ["b"] })), 501);
    server.end().unwrap();
    let server = start(Config::default(), 1);
    error(&post(server.address, "/v1/embeddings", &json!({ "input": "a" })), 501);
    server.end().unwrap();
}

/// Floats out of base64.
fn decoded(text: &str) -> Vec<f32> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.trim_end_matches('=').bytes().map(digit).collect();
    let bits = digits.iter().flat_map(|digit| (0..6).rev().map(move |bit| digit >> bit & 1)).collect::<Vec<_>>();
    let bytes: Vec<u8> = bits.chunks_exact(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | bit)).collect();
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}
