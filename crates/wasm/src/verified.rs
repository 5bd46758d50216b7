//! What the verification of a GPU found, for the page.

use candor::trust::{Operation, Operations};
use serde_json::{Value, json};

/// All of it as JSON.
pub(crate) fn report(found: &Operations) -> Value {
    let operation = |operation: &Operation| {
        let worst = operation.worst_of_all();
        json!({
            "operation": operation.class.operation,
            "format": operation.class.format,
            "calls": operation.calls,
            "elements": operation.elements,
            "error": worst.error,
            "bound": worst.bound,
        })
    };
    json!({
        "ok": found.passes(),
        "operations": found.classes.iter().map(operation).collect::<Value>(),
        "failure": found.failure(),
    })
}
