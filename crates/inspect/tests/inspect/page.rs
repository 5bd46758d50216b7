//! The page about a trace: what it holds, that nothing from a file becomes markup, and that its size is bounded.
//! The pages are written to cargo's folder for tests, where `tools/page-test` opens them in a browser.

use std::{fs, path::PathBuf};

use candor::{Encode, Gguf};
use candor_inspect::{
    Diagnosis, Evidence, Graph, Key, Known, Outcome, Trace, catalogue, diagnose,
    fault::Active,
    page,
    replay::{Arithmetic, Decoded, Order, Replay, Stage, Tokens},
    simulate,
};
use candor_testing::Tiny;

const PROMPT: &str = "Tell me a story about a dog and the sea.";
const HOSTILE: &str = "</script><img src=x onerror=\"window.__broken=1\"><!--<script>'&{{data}}";

fn builtin() -> Gguf {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../candor/assets/candor-tiny.gguf");
    Gguf::open(path).unwrap()
}

fn fault(name: &str) -> Active {
    let fault = catalogue().find(|fault| fault.name == name).unwrap();
    Active::new(fault, fault.variants[0])
}

/// What an engine with these faults would have dumped. It sums in another order than replay does.
fn run(gguf: &Gguf, ids: Vec<u32>, prompt: usize, faults: &[Active]) -> Trace {
    let graph = Graph::new(gguf).unwrap();
    let (tokens, decoded) = (Tokens::new(ids, prompt), Decoded::default());
    let stage = Stage { graph: &graph, gguf, tokens: &tokens, decoded: &decoded };
    let arithmetic = Arithmetic { order: Order::Reverse, ..Arithmetic::default() };
    let mut trace = simulate(&stage, arithmetic, faults).unwrap();
    trace.origin.prompt = Some(PROMPT.to_owned());
    trace.origin.model = Some("candor-tiny".to_owned());
    trace
}

/// Adds the attention of the first layer, which Candor's own traces do not hold.
fn add_attention(gguf: &Gguf, trace: &mut Trace) {
    let graph = Graph::new(gguf).unwrap();
    let tokens = Tokens::new(trace.origin.tokens.clone().unwrap(), trace.origin.prompt_tokens.unwrap());
    let decoded = Decoded::default();
    let stage = Stage { graph: &graph, gguf, tokens: &tokens, decoded: &decoded };
    for name in ["kq", "kq_soft_max"] {
        let id = graph.find(&Key::new(name, Some(0))).unwrap();
        let value = Replay::local(&stage, Arithmetic::default(), &[], trace, id).value(id);
        trace.values.insert(Key::new(name, Some(0)), Evidence::all(value.width, value.data.clone()));
    }
}

fn tiny() -> Gguf {
    Gguf::from_bytes(Tiny::default().bytes().into()).unwrap()
}

/// What the page's script reads.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// Keeps a page for the browser, with what it must show.
fn keep(name: &str, page: &str, diagnosis: Option<&Diagnosis>) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{name}.html")), page).unwrap();
    let findings = diagnosis.map(|diagnosis| &diagnosis.findings);
    let first = diagnosis.and_then(|diagnosis| diagnosis.first_wrong.as_ref());
    let expected = serde_json::json!({ "first_wrong": first, "findings": findings, "compared": diagnosis.is_some() });
    fs::write(folder.join(format!("{name}.json")), expected.to_string()).unwrap();
}

#[test]
fn a_planted_fault_is_on_the_page() {
    let gguf = builtin();
    let tokenizer = candor::Tokenizer::from_metadata(gguf.metadata()).unwrap();
    let mut ids = tokenizer.encode(PROMPT, Encode::prompt());
    let prompt = ids.len();
    ids.extend(tokenizer.encode(" Once there was a", Encode::text()));
    let mut trace = run(&gguf, ids, prompt, &[fault("rope-other-pairing")]);
    add_attention(&gguf, &mut trace);
    let diagnosis = diagnose(&gguf, &trace).unwrap();
    let page = page(&gguf, &trace, Some(&diagnosis), "rope of another pairing").unwrap();
    keep("faulty", &page, Some(&diagnosis));

    let data = data(&page);
    assert_eq!(data["verdict"]["outcome"], "faulty");
    assert_eq!(data["verdict"]["first_wrong"], "Qcur-0");
    assert_eq!(data["verdict"]["findings"][0]["fault"], "rope-other-pairing");
    let place = |key: &str| data["places"].as_array().unwrap().iter().find(|place| place["key"] == key).unwrap();
    assert_eq!(place("Qcur-0")["check"]["status"], "wrong");
    assert_eq!(place("attn_norm-0")["check"]["status"], "right");
    for (key, heads) in
        [("Qcur-0", true), ("Vcur-0", true), ("kqv_out-0", true), ("kq-0", true), ("attn_norm-0", false)]
    {
        assert_eq!(place(key)["by_head"].is_object(), heads, "{key}");
    }
    assert_eq!(data["places"].as_array().unwrap().len(), diagnosis.checks.len());
}

#[test]
fn a_run_without_a_suspect_is_shown_without_a_verdict() {
    let gguf = tiny();
    let trace = run(&gguf, vec![1, 5, 9, 3, 7], 3, &[]);
    let page = page(&gguf, &trace, None, "a run of candor").unwrap();
    keep("values", &page, None);
    let data = data(&page);
    assert!(data["verdict"].is_null());
    for place in data["places"].as_array().unwrap() {
        assert!(place["check"].is_null() && place["want"].is_null() && place["got"]["count"].as_u64() > Some(0));
    }
}

#[test]
fn a_deep_healthy_model_is_said_to_be_healthy() {
    let gguf = Gguf::from_bytes(Tiny { layers: 60, ..Tiny::default() }.bytes().into()).unwrap();
    let trace = run(&gguf, vec![1, 5, 9, 3, 7], 3, &[]);
    let diagnosis = diagnose(&gguf, &trace).unwrap();
    let page = page(&gguf, &trace, Some(&diagnosis), "sixty layers").unwrap();
    keep("deep", &page, Some(&diagnosis));
    let data = data(&page);
    assert_eq!((&data["verdict"]["outcome"], &data["layers"]), (&"healthy".into(), &60.into()));
    assert!(data["verdict"]["first_wrong"].is_null());
}

#[test]
fn nothing_from_a_file_becomes_markup() {
    let gguf = tiny();
    let mut trace = run(&gguf, vec![1, 5, 9, 3, 7], 3, &[fault("norm-weight-plus-one")]);
    for text in [
        &mut trace.origin.engine,
        &mut trace.origin.prompt,
        &mut trace.origin.model,
        &mut trace.origin.backend,
        &mut trace.origin.model_sha256,
    ] {
        *text = Some(HOSTILE.to_owned());
    }
    trace.values.insert(Key::new(HOSTILE, None), Evidence::all(1, vec![0.0]));
    trace.values.insert(Key::new(HOSTILE, Some(1)), Evidence::all(1, vec![0.0]));
    let diagnosis = diagnose(&gguf, &trace).unwrap();
    let page = page(&gguf, &trace, Some(&diagnosis), HOSTILE).unwrap();
    keep("hostile", &page, Some(&diagnosis));
    assert!(!page.contains("<img") && !page.contains("<!--"));
    assert_eq!(page.matches("<script").count(), 2, "the data and the script");
    assert_eq!(page.matches("</script>").count(), 2);
    let data = data(&page);
    for field in ["engine", "prompt", "model", "backend", "sha256", "title"] {
        assert_eq!(data[field], HOSTILE, "{field}");
    }
    assert_eq!(data["verdict"]["unplaced_count"], 2);
}

#[test]
fn partial_and_broken_evidence_has_a_page_too() {
    let gguf = tiny();
    let mut trace = run(&gguf, vec![1, 5, 9, 3, 7], 3, &[]);
    let keys: Vec<Key> = trace.values.keys().cloned().collect();
    for key in keys {
        match (key.name.as_str(), key.layer) {
            ("Qcur", Some(0)) => {
                let points = (0..4).map(|col| (-1, col, f32::NAN)).collect();
                trace.values.get_mut(&key).unwrap().known = Known::Some(points);
            }
            ("l_out", _) => {
                let evidence = trace.values.get_mut(&key).unwrap();
                let Known::All(values) = &mut evidence.known else { unreachable!() };
                values[3] = f32::INFINITY;
            }
            _ => drop(trace.values.remove(&key)),
        }
    }
    let diagnosis = diagnose(&gguf, &trace).unwrap();
    assert_eq!(diagnosis.outcome, Outcome::Unknown);
    let page = page(&gguf, &trace, Some(&diagnosis), "what little there is").unwrap();
    keep("partial", &page, Some(&diagnosis));
    let data = data(&page);
    let place = data["places"].as_array().unwrap().iter().find(|place| place["key"] == "Qcur-0").unwrap().clone();
    assert_eq!((&place["got"]["nan"], &place["got"]["count"]), (&4.into(), &4.into()));
    assert_eq!((&place["known_rows"], &place["sample"][0]["row"]), (&1.into(), &4.into()));
}

#[test]
fn long_traces_stay_small() {
    let gguf = tiny();
    let ids: Vec<u32> = (0..600).map(|at| at % 8).collect();
    let short = page(&gguf, &run(&gguf, ids[..30].to_vec(), 30, &[]), None, "short").unwrap();
    let long = page(&gguf, &run(&gguf, ids, 600, &[]), None, "long").unwrap();
    keep("long", &long, None);
    assert!(long.len() < 2 * short.len(), "{} for 20 times the values of {}", long.len(), short.len());
}

#[test]
fn a_trace_of_another_model_is_refused() {
    let mut trace = run(&tiny(), vec![1, 5, 9], 3, &[]);
    trace.origin.tokens = Some(vec![u32::MAX]);
    assert!(page(&tiny(), &trace, None, "").unwrap_err().to_string().contains("another model"));
}
