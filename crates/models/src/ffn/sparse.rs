//! A feed-forward of which only the greatest inputs of its function count: those above what a share of a normal distribution of
//! their mean and deviation would lie below, and of these what is above that (Gemma Team 2025, Gemma 3n).

use candor_ops::{Columns, Norm, NormKind, Ops, Unary};

use crate::{Error, keys::Keys};

/// Keeps a row that is all the same from dividing by nothing.
const EPS: f32 = 1e-12;

/// The values in flight.
pub(crate) struct Scratch<B: Ops> {
    normed: B::Buf,    // [T, F]
    deviation: B::Buf, // [T, 1]
}

impl<B: Ops> Scratch<B> {
    pub(crate) fn new(ops: &mut B, rows: usize, width: usize) -> Scratch<B> {
        Scratch { normed: ops.buffer(rows, width), deviation: ops.buffer(rows, 1) }
    }
}

/// How many deviations above the mean the bound of a layer lies, where it has one.
pub(crate) fn cutoff(keys: &Keys<'_>, i: usize) -> Result<Option<f32>, Error> {
    const SCALE: &str = "activation_sparsity_scale";
    let Some(all) = keys.gguf.metadata().f32s(&keys.name(SCALE))? else { return Ok(None) };
    match all.get(i) {
        Some(&cutoff) if cutoff.is_finite() => Ok(Some(cutoff)),
        // Everything lies above that.
        Some(&f32::NEG_INFINITY) => Ok(None),
        Some(other) => Err(keys.bad(SCALE, "numbers of deviations", other)),
        None => Err(keys.bad(SCALE, "a number for each layer", all.len())),
    }
}

/// `x = max(x - (mean + cutoff * deviation), 0)`, which is `deviation * max(norm(x) - cutoff, 0)`.
pub(crate) fn cut<B: Ops>(ops: &mut B, s: &mut Scratch<B>, x: &mut B::Buf, (cutoff, width): (f32, usize)) {
    let whole = Columns::run(width, 0, 0);
    ops.copy(&mut s.normed, x, whole);
    ops.norm(&mut s.normed, Norm { kind: NormKind::Layer, run: width, eps: EPS }, None, None);
    // The normed row has no mean, so that its product with the row is the deviation, as often as there are elements.
    ops.dot_groups(&mut s.deviation, x, &s.normed);
    ops.unary(&mut s.deviation, Unary::scale(1.0 / width as f32));
    ops.copy(x, &s.normed, whole);
    ops.unary(x, Unary::Affine { scale: 1.0, offset: -cutoff });
    ops.unary(x, Unary::Relu);
    ops.mul_groups(x, &s.deviation);
}

#[cfg(test)]
mod tests {
    use candor_gguf::{Array, Gguf, Value};
    use candor_testing::Tiny;

    use crate::Config;

    /// A layer that cuts nothing off, as files say it with minus infinity, needs no room for that.
    #[test]
    fn infinitely_far_below_is_nowhere() {
        let bytes = |bounds: Option<[f32; 2]>| {
            let mut writer = Tiny::default().writer();
            if let Some(bounds) = bounds {
                writer.insert("llama.activation_sparsity_scale", Value::Array(Array::F32(bounds.to_vec())));
            }
            let gguf = Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap();
            Config::from_gguf(&gguf).unwrap().scratch_bytes(1, 0)
        };
        let far = f32::NEG_INFINITY;
        assert_eq!(bytes(Some([far, far])), bytes(None));
        // The feed-forward's room, of 48, and what is cut, and its deviation; the other layer's room is not of these.
        assert_eq!(bytes(Some([1.5, far])), bytes(None) + 4 * (2 * 48 + 48 + 1));
    }
}
