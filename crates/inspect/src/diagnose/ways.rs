//! A suspect's own ways of storing that are no faults: in which format its cache keeps keys and values, and whether GELU
//! comes from a table of halves. Both show in the values that come out.

use candor::Format;
use candor_ops::Unary;

use super::rounding::span;
use crate::{
    Kind, NodeId, Trace, compare,
    replay::{Arithmetic, Cache, Replay, Stage, TURN},
};

/// Values that are looked at, of those that stand nearest behind an operation.
const NEAREST: usize = 4;

/// Multiplications with weights up to which a replay is done in an instant.
const MUCH: usize = 1 << 23;

/// What one value may be off, at most, for the sum of them: what is far off is a fault, however far.
const LIMIT: f64 = 0.5;

/// The arithmetic with the suspect's own ways in it, and sentences that say them.
pub(super) fn own(
    stage: &Stage<'_>,
    trace: &Trace,
    known: &[NodeId],
    arithmetic: Arithmetic,
) -> (Arithmetic, Vec<String>) {
    let mut said = Vec::new();
    let halves = Arithmetic { gelu_table: true, ..arithmetic };
    let looks_up = |kind: &Kind| matches!(kind, Kind::Unary(Unary::Gelu | Unary::GeluErf | Unary::GeluQuick));
    // With anything else between, as attention in halves, its own rounding would hide the table's.
    let behind = Behind::of(stage, trace, known, looks_up).nearest();
    let mut arithmetic = arithmetic;
    if behind.explains(halves, arithmetic, 1e-5) {
        said.push("GELU comes from a table: the tanh formula in half precision, as in llama.cpp".to_owned());
        arithmetic = halves;
    }
    let attends = |kind: &Kind| matches!(kind, Kind::Scores(_) | Kind::Mix(_));
    let behind = Behind::of(stage, trace, known, attends);
    if let Some(cache) = kept(stage, arithmetic, &behind) {
        let Cache { keys, values, turned, .. } = cache;
        let turned = if turned { ", heads turned before" } else { "" };
        said.push(format!("the cache keeps keys in {} and values in {}{turned}", keys.name(), values.name()));
        arithmetic.cache = cache;
    }
    (arithmetic, said)
}

/// The cache that explains what attention gives, where nothing else explains as much.
fn kept(stage: &Stage<'_>, arithmetic: Arithmetic, behind: &Behind<'_>) -> Option<Cache> {
    // Halves are right whatever the suspect has: they are within what attention may be off.
    const HALVES: f64 = 1.5e-3;
    let told = arithmetic.cache;
    let whole = Arithmetic { cache: Cache::default(), ..arithmetic };
    let off = behind.off(whole)?;
    if off <= HALVES {
        return None;
    }
    let formats: &[Format] = &[
        Format::F32,
        Format::F16,
        Format::Bf16,
        Format::Q8_0,
        Format::Q5_1,
        Format::Q5_0,
        Format::Q4_1,
        Format::Q4_0,
        Format::Iq4Nl,
    ];
    let any = told == Cache::default();
    let dims = stage.graph.nodes.iter().filter_map(|node| match node.kind {
        Kind::Scores(heads) => Some(heads.key_dim),
        _ => None,
    });
    let turns: &[bool] = if dims.min().is_some_and(|dim| dim.is_multiple_of(TURN)) { &[false, true] } else { &[false] };
    let halves = formats.iter().map(|&format| (format, Format::F16));
    let pairs: Vec<(Format, Format)> = match any {
        true => {
            formats.iter().map(|&format| (format, format)).chain(halves.clone()).chain(halves.map(swapped)).collect()
        }
        false => vec![(told.keys, told.values)],
    };
    let mut best: Option<(f64, Cache)> = None;
    for (keys, values) in pairs {
        for (&turned, together) in turns.iter().flat_map(|turned| [(turned, false), (turned, true)]) {
            let cache = Cache { keys, values, turned, together };
            let Some(off) = behind.off(Arithmetic { cache, ..arithmetic }) else { continue };
            if best.is_none_or(|(least, _)| off < least) {
                best = Some((off, cache));
            }
        }
    }
    let (least, cache) = best?;
    (least < 0.3 * off).then_some(cache)
}

fn swapped((a, b): (Format, Format)) -> (Format, Format) {
    (b, a)
}

/// Values that stand behind an operation, without another of its kind between that other layers have.
struct Behind<'a> {
    stage: &'a Stage<'a>,
    trace: &'a Trace,
    /// With how many operations there are between.
    ids: Vec<(usize, NodeId)>,
}

impl<'a> Behind<'a> {
    fn of(stage: &'a Stage<'a>, trace: &'a Trace, known: &[NodeId], is_one: impl Fn(&Kind) -> bool) -> Behind<'a> {
        let nodes = &stage.graph.nodes;
        let layers = |id: NodeId| {
            let span = span(stage, trace, id);
            let of: Vec<_> =
                span.iter().filter(|&&id| is_one(&nodes[id].kind)).map(|&id| nodes[id].key.layer).collect();
            let one = of.first().is_some_and(|first| of.iter().all(|layer| layer == first));
            (one && stage.work(&span) <= MUCH).then_some(span.len())
        };
        let mut near: Vec<(usize, NodeId)> = known.iter().filter_map(|&id| Some((layers(id)?, id))).collect();
        near.sort_unstable();
        Behind { stage, trace, ids: near.into_iter().take(NEAREST).collect() }
    }

    /// Those alone with the fewest operations between.
    fn nearest(mut self) -> Behind<'a> {
        let least = self.ids.first().map(|&(len, _)| len);
        self.ids.retain(|&(len, _)| Some(len) == least);
        self
    }

    /// How far these values are off together.
    fn off(&self, arithmetic: Arithmetic) -> Option<f64> {
        let one = |&(_, id): &(usize, NodeId)| {
            let replay = Replay::local(self.stage, arithmetic, &[], self.trace, id);
            let node = &self.stage.graph.nodes[id];
            let value = (*replay.value(id)).clone().joined(node.per_token);
            Some(compare(&value, &self.trace.values[&node.key])?.relative.min(LIMIT))
        };
        let off: Vec<f64> = self.ids.iter().filter_map(one).collect();
        (!off.is_empty()).then(|| off.iter().sum::<f64>())
    }

    /// Whether one way explains the values, and the other does not.
    fn explains(&self, way: Arithmetic, other: Arithmetic, floor: f64) -> bool {
        let (Some(way), Some(other)) = (self.off(way), self.off(other)) else { return false };
        other > floor && way < 0.3 * other
    }
}
