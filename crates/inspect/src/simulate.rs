//! Traces of runs with faults planted: what an engine with a known fault would have dumped.

use crate::{
    Evidence, Graph, Node, Origin, Trace,
    fault::Active,
    replay::{Arithmetic, Replay, Stage},
};

/// Runs the model with faults and records what engines record.
///
/// Values that a fault makes meaningless (those of a skipped layer) are recorded as an engine would have computed them.
/// Returns `None` where a fault finds nothing to change in this model.
pub fn simulate(stage: &Stage<'_>, arithmetic: Arithmetic, faults: &[Active]) -> Option<Trace> {
    simulate_taking(stage, arithmetic, faults, |node| node.tapped)
}

/// [`simulate`], of the values that are taken.
pub fn simulate_taking(
    stage: &Stage<'_>,
    arithmetic: Arithmetic,
    faults: &[Active],
    takes: impl Fn(&Node) -> bool,
) -> Option<Trace> {
    let replay = Replay::whole(stage, arithmetic, faults);
    let Graph { nodes, .. } = stage.graph;
    let mut trace = Trace {
        origin: Origin {
            engine: Some("candor's replay".to_owned()),
            tokens: Some(stage.tokens.ids.clone()),
            prompt_tokens: Some(stage.tokens.prompt),
            text: Some(stage.tokens.text.clone()).filter(|text| !text.is_empty()),
            ..Origin::default()
        },
        ..Trace::default()
    };
    for (id, node) in nodes.iter().enumerate() {
        let value = replay.value(id);
        if takes(node) {
            // A fault may choose more experts than the file says, or fewer.
            let experts = value.rows / stage.tokens.rows(node.side).max(1);
            let value = (*value).clone().joined(if node.per_token > 1 { experts } else { 1 });
            trace.values.insert(node.key.clone(), Evidence::all(value.width, value.data));
        }
    }
    replay.all_applied().then_some(trace)
}
