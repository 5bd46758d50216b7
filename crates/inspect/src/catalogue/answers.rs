//! Faults of models that answer a text, T5 and its kin: what the encoder's tokens see, what the decoder has of them, and
//! scores by distance.

use candor_ops::relative_bucket;

use super::{
    row::ROW,
    seen::{attending, mask, seeing},
};
use crate::fault::{Edit, Fault};
use crate::replay::{Matrix, Place, Side, SoftMax};
use crate::{Attending, Key, NodeId};

/// Whether the operation is a softmax over the keys of a text, of a row that is not of it.
fn crosses(place: &Place<'_>) -> bool {
    attending(place).is_some() && place.graph.keys(place.id) != place.node.side
}

/// Scores by what distances are made to: the one from a key to its query, and whether both directions count.
fn rescored(plan: &mut SoftMax, place: &Place<'_>, distance: fn(i64) -> i64, both: fn(bool) -> bool) -> bool {
    let Some(Attending { relative: Some((table, most)), mask, .. }) = attending(place) else { return false };
    let (table, most, both) = (Matrix::decode(table), *most, both(mask.is_both()));
    plan.bias = Box::new(move |h, t, p| {
        let away = distance(p as i64 - t as i64);
        f64::from(table.row(relative_bucket(away, both, table.rows, most))[h])
    });
    place.rows() > 1
}

/// What the encoder's last norm is given.
fn unnormed(place: &Place<'_>) -> Option<NodeId> {
    let norm = place.graph.find(&Key::new("enc_result_norm", None))?;
    place.graph.nodes[norm].inputs.first().copied()
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "encoder-looks-back-alone",
        entry: "50",
        edits: &[Edit::SoftMax(|plan, place| {
            seeing(plan, |seen, t, p| seen(t, p) && p <= t);
            mask(place).is_both() && !crosses(place) && place.rows() > 1
        })],
        cause: "the tokens of the encoder's text do not see those after them",
        remedy: "an encoder has no causal mask: every token sees the whole text",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "cross-attention-masked",
        entry: "50",
        edits: &[Edit::SoftMax(|plan, place| {
            plan.visible = Box::new(|t, p| p <= t);
            crosses(place) && place.tokens.rows(Side::Text) > 1
        })],
        cause: "a token of the answer sees no more of the text than as many tokens as it has before it",
        remedy: "every token of the answer sees the whole text",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "encoder-norm-missing",
        entry: "28m",
        edits: &[Edit::Wiring(|inputs, place| {
            let keeps = matches!(place.name(), "Kcur_cross" | "Vcur_cross");
            let Some(before) = unnormed(place).filter(|_| keeps) else { return false };
            inputs[0] = before;
            true
        })],
        cause: "the decoder reads the encoder's last layer before the norm that follows it",
        remedy: "norm what the encoder gives with enc.output_norm before keys and values are made of it",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "distance-buckets-of-the-other-stack",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| rescored(plan, place, |away| away, |both| !both))],
        cause: "the buckets of distances are divided as in the other half: for both directions in the decoder, or for one in \
                the encoder",
        remedy: "half of the buckets are for what comes later in the encoder, none in the decoder",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "distance-sign",
        entry: "43",
        edits: &[Edit::SoftMax(|plan, place| rescored(plan, place, |away| -away, |both| both))],
        cause: "distances are taken from query to key instead of from key to query",
        remedy: "the bucket is that of key position - query position",
        source: "a fault of wirings in general",
        ..ROW
    },
    Fault {
        name: "attention-scale-added",
        entry: "48",
        edits: &[Edit::SoftMax(|plan, _| {
            let unscaled = plan.scale == 1.0;
            plan.scale = 1.0 / (plan.heads.key_dim as f64).sqrt();
            unscaled
        })],
        cause: "scores are scaled, although the model is trained without",
        remedy: "T5's scores are not scaled: its weights are made for that",
        source: "a fault of wirings in general",
        ..ROW
    },
];
