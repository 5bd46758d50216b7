//! `candor embed` and `candor rerank` through the binary.

use std::{fs, path::Path};

use serde_json::Value;

use crate::program::candor;

const QUERY: &str = "what is the capital of france";

fn reranker() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../candor/tests/goldens/cross-encoder.gguf");
    path.to_str().unwrap().to_owned()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn texts_become_vectors_of_length_one() {
    let model = reranker();
    let args = ["embed", &model, "--pooling", "mean"];
    let object = json(&candor(args).stdin("cats sleep\nparis\n").text());
    assert_eq!((&object["object"], &object["data"][1]["index"]), (&"list".into(), &1.into()));
    let vector: Vec<f64> =
        object["data"][0]["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    assert_eq!(vector.len(), 24);
    assert!((vector.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-5);

    let array =
        json(&candor(args.iter().chain(&["--embd-output-format", "array", "-p", "cats sleep", "-p", "paris"])).text());
    assert_eq!(array[0], object["data"][0]["embedding"]);
    assert_eq!(array[1], object["data"][1]["embedding"]);
    let raw = json(&candor(args.iter().chain(&["--embd-normalize", "-1", "-p", "paris"])).text());
    assert_ne!(raw["data"][0]["embedding"], array[1]);
    let each = json(&candor(["embed", &model, "--pooling", "none", "-p", "cats sleep"]).text());
    // [CLS] cats sleep [SEP]
    assert_eq!(each["data"][0]["embedding"].as_array().unwrap().len(), 4);
}

#[test]
fn a_numpy_file_has_a_row_for_each_text() {
    let (model, folder) = (reranker(), tempfile::tempdir().unwrap());
    let path = folder.path().join("vectors.npy");
    let args = ["embed", &model, "--pooling", "cls", "--embd-output-format", "npy", "-o", path.to_str().unwrap()];
    assert_eq!(candor(args).stdin("cats\nparis\na\n").text(), "");
    let bytes = fs::read(&path).unwrap();
    assert_eq!((bytes.len() - 3 * 24 * 4) % 64, 0);
    assert!(String::from_utf8_lossy(&bytes).contains("'shape': (3, 24), "));
    assert_eq!(candor_testing::npy(&path).len(), 3 * 24);
}

#[test]
fn documents_are_sorted_by_their_scores() {
    let model = reranker();
    let documents = "Paris is the capital of France.\ncats sleep all day\nBerlin, a city in Germany\n";
    let args = ["rerank", &model, "--query", QUERY];
    let results = json(&candor(args.iter().chain(&["--json"])).stdin(documents).text())["results"].clone();
    let scores: Vec<f64> =
        results.as_array().unwrap().iter().map(|result| result["relevance_score"].as_f64().unwrap()).collect();
    assert!(scores.len() == 3 && scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    let golden = candor_testing::json(&Path::new(&model).with_extension("json"));
    for (index, pair) in [(0, 0), (2, 1), (1, 2)] {
        let expected = golden["pairs"][pair]["scores"][0].as_f64().unwrap();
        let result = results.as_array().unwrap().iter().find(|result| result["index"] == index).unwrap();
        assert!((result["relevance_score"].as_f64().unwrap() - expected).abs() < 1e-5, "{result}");
    }
    let table = candor(args.iter().chain(&["--top-n", "1"])).stdin(documents).text();
    assert_eq!(table.lines().count(), 1);
    assert!(table.trim_end().ends_with(results[0]["document"].as_str().unwrap()), "{table}");
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let model = reranker();
    let encoder = "error: the model (bert) is an encoder: it makes vectors of texts and continues none\n\
                   hint: candor embed makes vectors with it";
    assert_eq!(candor(["run", &model, "--raw", "-p", "cats"]).error(), encoder);
    assert_eq!(candor(["run", &model, "-p", "cats"]).error(), encoder);
    let long = "cats ".repeat(70);
    let error = candor(["embed", &model, "-p", &long]).error();
    assert_eq!(error, "error: text 1 has 72 tokens, the context holds 64\nhint: --truncate cuts texts off");
    candor(["embed", &model, "--truncate", "-p", &long]).text();
    let error = candor(["embed", &model]).stdin("").error();
    assert_eq!(error, "error: there are no texts\nhint: give one on each line of -f FILE or of stdin");
    let error = candor(["rerank", "--query", QUERY]).stdin("a\n").error();
    assert!(error.starts_with("error: the model is no reranker: it has no tensor cls.weight"), "{error}");
    let args = ["embed", &model, "--pooling", "none", "--embd-output-format", "npy", "-p", "a", "-p", "b"];
    assert!(candor(args).error().starts_with("error: an npy file holds one vector for each text"));
}
