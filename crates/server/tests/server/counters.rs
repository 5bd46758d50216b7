//! What was done, in numbers.

use std::collections::BTreeSet;

use candor_server::Config;
use serde_json::json;

use crate::{
    client::{get, post},
    serving::{CONTEXT, start},
};

#[test]
fn what_was_done_is_counted() {
    let mut config = Config::default();
    (config.metrics, config.slots) = (true, true);
    let server = start(config, 2);
    let number = |name: &str| -> f64 {
        let text = get(server.address, "/metrics").body;
        let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])));
        line.unwrap_or_else(|| panic!("{name}: {text}")).rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!((number("llamacpp:prompt_tokens_total"), number("llamacpp:n_decode_total")), (0.0, 0.0));
    let body = json!({ "prompt": "the cat", "max_tokens": 9, "ignore_eos": true });
    let (mut read, mut cached) = (0.0, 0.0);
    for n in 0..3 {
        let usage = &post(server.address, "/v1/completions", &body).json()["usage"];
        let reused = usage["prompt_tokens_details"]["cached_tokens"].as_f64().unwrap();
        assert_eq!(reused > 0.0, n > 0);
        cached += reused;
        read += usage["prompt_tokens"].as_f64().unwrap() - reused;
    }
    // The model's thread says so once it has nothing to do.
    while number("llamacpp:requests_processing") > 0.0 {}
    // What another prompt has read is not read again.
    assert_eq!(number("llamacpp:prompt_tokens_total"), read);
    assert_eq!(number("llamacpp:prompt_tokens_cached_total"), cached);
    assert_eq!(number("llamacpp:tokens_predicted_total"), 27.0);
    assert!(number("llamacpp:n_decode_total") >= 27.0);
    for name in [
        "llamacpp:prompt_seconds_total",
        "llamacpp:tokens_predicted_seconds_total",
        "llamacpp:predicted_tokens_seconds",
    ] {
        assert!(number(name) > 0.0, "{name}");
    }
    for name in [
        "llamacpp:requests_deferred",
        "vllm:num_requests_waiting",
        "vllm:num_requests_running",
        "vllm:kv_cache_usage_perc",
    ] {
        assert_eq!(number(name), 0.0, "{name}");
    }
    assert_eq!((number("vllm:cache_config_info"), number("vllm:lora_requests_info")), (1.0, 1.0));
    // Each is described once, and has one value.
    let text = get(server.address, "/metrics").body;
    let described: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert_eq!(text.lines().count(), 3 * described.len());
    let slots = get(server.address, "/slots").json();
    assert_eq!(slots, json!([0, 1].map(|id| json!({ "id": id, "n_ctx": CONTEXT, "is_processing": false }))));
    server.end().unwrap();
}

/// The manifests for Kubernetes have a gateway's picker look at metrics that are there.
#[test]
fn what_a_picker_looks_at_is_there() {
    let picker = include_str!("../../../../docs/deploy/kubernetes/gateway.yaml");
    let named: BTreeSet<&str> = picker.split('"').filter(|name| name.starts_with("vllm:")).collect();
    assert_eq!(named.len(), 5);
    let mut config = Config::default();
    config.metrics = true;
    let server = start(config, 1);
    let text = get(server.address, "/metrics").body;
    let served: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" gauge")).collect();
    assert!(named.is_subset(&served), "{named:?} {served:?}");
    // It reads these labels of them.
    for label in ["block_size=", "num_gpu_blocks=", "max_lora=", "running_lora_adapters=", "waiting_lora_adapters="] {
        assert!(text.contains(label), "{label}");
    }
    server.end().unwrap();
}

#[test]
fn what_was_not_asked_for_is_not_told() {
    let server = start(Config::default(), 1);
    for path in ["/metrics", "/slots"] {
        let reply = get(server.address, path);
        assert_eq!((reply.status, &reply.json()["error"]["type"]), (501, &"not_supported_error".into()));
    }
    server.end().unwrap();
}
