//! Numbers and values that faults compare, add and scale.

use std::rc::Rc;

use crate::{
    Value,
    replay::{Place, Side},
};

/// Whether two numbers are the same up to their last digits.
pub(super) fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-3 * b.abs()
}

/// Lets decoded tokens keep what goes in, where the operation is one of these: what comes out of the prompt stays.
pub(super) fn left_at_decode(out: &mut Value, inputs: &[Rc<Value>], place: &Place<'_>, is_one: bool) -> bool {
    let (first, width) = (place.tokens.prompt, out.width);
    let grows = place.node.side == Side::Tokens && place.node.per_token == 1 && out.rows == place.rows();
    let hit = is_one && grows && first > 0 && first < out.rows && inputs[0].data.len() == out.data.len();
    if hit {
        out.data[first * width..].copy_from_slice(&inputs[0].data[first * width..]);
    }
    hit
}

/// The sum of two values.
pub(super) fn sum(values: &[Rc<Value>]) -> Option<Value> {
    let [x, y] = values else { return None };
    let data = x.data.iter().zip(&y.data).map(|(x, y)| x + y).collect();
    Some(Value { data, ..**x })
}

/// A value times a number.
pub(super) fn scaled(x: &Value, factor: f64) -> Value {
    Value { data: x.data.iter().map(|&x| (f64::from(x) * factor) as f32).collect(), ..*x }
}
