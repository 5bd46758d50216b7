//! A test as data: llama-bench's fields and ours, the same in JSON, JSON lines and comma-separated values.

use std::io::{self, Write};

use candor::{Activations, Batching};
use serde_json::{Map, Value, json};

use super::result::Measured;
use crate::report::name;

/// All fields of a test, in their order.
pub fn fields(measured: &Measured<'_>) -> Map<String, Value> {
    let Measured { subject, place, setup, test, work, samples, huge_share, time } = measured;
    let (ceilings, ns, ts) = (&place.ceilings, measured.nanoseconds(), measured.speed());
    let pairs = [
        ("build_version", json!(env!("CARGO_PKG_VERSION"))),
        ("cpu_info", json!(place.cpu)),
        ("backends", json!(place.backends())),
        ("devices", json!(place.device())),
        ("isa", json!(ceilings.isa)),
        ("model_filename", json!(subject.filename)),
        ("model_type", json!(subject.kind)),
        ("model_size", json!(subject.size)),
        ("model_n_params", json!(subject.parameters)),
        ("n_batch", json!(setup.batch)),
        ("n_ubatch", json!(setup.ubatch)),
        ("n_gpu_layers", json!(place.site.layers.to_string())),
        ("n_threads", json!(ceilings.threads)),
        ("batching", json!(batching(place.site.batching))),
        ("activations", json!(activations(place.site.activations))),
        ("type_k", json!(name(setup.keys))),
        ("type_v", json!(name(setup.values))),
        ("use_mmap", json!(place.memory.mapped)),
        ("huge_pages", json!(place.memory.huge_pages)),
        ("huge_share", json!(huge_share)),
        ("n_prompt", json!(test.prompt)),
        ("n_gen", json!(test.generated)),
        ("n_depth", json!(test.depth)),
        ("n_parallel", json!(test.sequences)),
        ("prompt_shared", json!(test.shared)),
        ("test", json!(test.to_string())),
        ("test_time", json!(time)),
        ("avg_ns", json!(ns.value.round() as u64)),
        ("stddev_ns", json!(ns.deviation.round() as u64)),
        ("avg_ts", json!(ts.value)),
        ("stddev_ts", json!(ts.deviation)),
        ("weight_bytes", json!(work.weight_bytes)),
        ("kv_bytes", json!(work.kv_bytes)),
        ("operations", json!(work.flops)),
        ("read_bytes_per_s", json!(place.limits().and_then(|limits| limits.read))),
        ("peak_operations_per_s", json!(place.limits().and_then(|limits| limits.multiply))),
        ("bytes_per_s", json!(measured.bytes_per_second())),
        ("share_of_read", json!(measured.share_of_read())),
        ("operations_per_s", json!(measured.operations_per_second())),
        ("share_of_peak", json!(measured.share_of_peak())),
        ("samples_ns", json!(samples)),
        ("samples_ts", json!(measured.speeds())),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}

/// A word for which kernels multiply rows.
pub fn batching(batching: Batching) -> &'static str {
    match batching {
        Batching::ByRole => "by role",
        Batching::Fastest => "fastest",
        Batching::Invariant => "invariant",
    }
}

/// A word for what the inputs of products are.
pub fn activations(activations: Activations) -> &'static str {
    match activations {
        Activations::Fastest => "auto",
        Activations::F32 => "f32",
    }
}

/// Writes a test as a line of quoted values; what is a list in JSON is one between the quotes, too.
pub fn csv_row(fields: &Map<String, Value>, out: &mut impl Write) -> io::Result<()> {
    let quoted = |value: &Value| match value {
        Value::Null => "\"\"".to_owned(),
        Value::String(text) => quote(text),
        other => quote(&other.to_string()),
    };
    writeln!(out, "{}", fields.values().map(quoted).collect::<Vec<_>>().join(","))
}

/// Writes the names of the fields.
pub fn csv_head(fields: &Map<String, Value>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", fields.keys().map(String::as_str).collect::<Vec<_>>().join(","))
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
