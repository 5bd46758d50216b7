//! The search for faults behind one value: the suspect's trace before replays of the model, right ones and faulty ones.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use candor::Format;
use web_time::Instant;

use super::{
    gate::{Gate, Status},
    precision::Precision,
    rounding::span,
    structure,
};
use crate::{
    Evidence, Key, Kind, Known, Node, NodeId, Residual, Trace, Value, catalogue, compare_where,
    fault::{Active, Edit, Harm},
    replay::{Arithmetic, Cache, Noise, Place, Replay, Rounding, Stage},
};

/// A fault, or two at once, and how well it reproduces a value.
#[derive(Clone, Debug)]
pub(super) struct Match {
    pub(super) faults: Vec<Active>,
    pub(super) residual: Residual,
}

impl Match {
    pub(super) fn name(&self) -> String {
        self.faults.iter().map(|active| active.fault.name).collect::<Vec<_>>().join(" + ")
    }
}

/// What was found at a value that does not follow from its inputs.
pub(super) struct Failure {
    pub(super) id: NodeId,
    pub(super) gate: Gate,
    pub(super) status: Status,
    pub(super) healthy: Residual,
    /// Faults that reproduce the value, best first.
    pub(super) matches: Vec<Match>,
    /// The best of the others.
    pub(super) rival: Option<Match>,
}

/// What a trace is diagnosed against.
pub(super) struct Court<'a> {
    pub(super) stage: &'a Stage<'a>,
    pub(super) trace: &'a Trace,
    pub(super) arithmetic: Arithmetic,
    /// What all products of the suspect are off alike.
    pub(super) slack: f64,
    pub(super) precision: &'a Precision,
    /// The trace's values, and what follows from them where it has none.
    pub(super) healthy: Replay<'a>,
    /// Whether there was no time for every fault.
    pub(super) hasty: Cell<bool>,
    /// How long wide searches may still take.
    pub(super) patience: Cell<Duration>,
}

/// A value that is looked at: what it should be, and what it was computed from.
pub(super) struct Case {
    pub(super) id: NodeId,
    pub(super) gate: Gate,
    pub(super) residual: Residual,
    /// The operations that had to be computed, for want of their outputs in the trace.
    pub(super) span: BTreeSet<NodeId>,
    pub(super) expected: Value,
    pub(super) inputs: Vec<Rc<Value>>,
}

impl Case {
    /// Whether the best of the faults leaves more than a tenth of a difference.
    pub(super) fn far_from(&self, matches: &[Match]) -> bool {
        matches.first().is_none_or(|best| best.residual.relative > 0.1 * self.residual.relative)
    }
}

/// Whether a fault can concern an operation at all, without computing anything.
pub(super) fn concerns(active: &Active, place: &Place<'_>) -> bool {
    active.fault.edits.iter().any(|edit| match (edit, &place.node.kind) {
        (Edit::Weight(_), kind) => kind.weight().is_some() && (active.fault.wants)(place),
        (Edit::Wiring(edit), _) => edit(&mut place.node.inputs.clone(), place),
        (Edit::Embed(_), Kind::Embed(_))
        | (Edit::Norm(_), Kind::Norm { .. })
        | (Edit::Rope(_), Kind::Rope { .. })
        | (Edit::Scores(_), Kind::Scores(_))
        | (Edit::SoftMax(_), Kind::SoftMax(_))
        | (Edit::Mix(_), Kind::Mix(_))
        | (Edit::Positions(_), Kind::Positions(_))
        | (Edit::Unary(_), Kind::Unary(_))
        | (Edit::Copy(_), Kind::Copy { .. })
        | (Edit::Conv(_), Kind::Conv(_))
        | (Edit::Recur(_), Kind::Recur(_))
        | (Edit::Route(_), Kind::Route { .. }) => true,
        (Edit::Output(_), _) => (active.fault.wants)(place),
        _ => false,
    })
}

/// All faults of the catalogue with all their numbers.
fn suspects() -> impl Iterator<Item = Active> {
    catalogue().flat_map(|fault| fault.variants.iter().map(move |&variant| Active::new(fault, variant)))
}

/// How long faults are tried one after the other where each takes a replay of much of the model.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same for all that is tried where nothing else reproduces a value with much of a layer behind it.
const WIDE_PATIENCE: Duration = Duration::from_secs(6);

/// How far a value is off, at most, for which that is tried: what is further off has nothing of the right one.
const ALIKE: f64 = 1.0;

/// Of how many single faults, the closest ones, pairs are tried.
const PAIRS_FROM: usize = 32;

/// Of how many where more operations than [`WITHIN`] lie between: beside each other, and beside what is harmless.
const WIDE_PAIRS_FROM: usize = 8;

/// Most operations in a row for which all pairs are tried.
const WITHIN: usize = 4;

/// Files do not say whether YaRN's ramp is rounded to whole pairs: llama.cpp rounds it, Transformers as its configuration
/// says.
pub(super) const ROUNDED: &str = "rope-yarn-ramp-rounded";

impl<'a> Court<'a> {
    pub(super) fn new(
        stage: &'a Stage<'a>,
        trace: &'a Trace,
        (arithmetic, slack): (Arithmetic, f64),
        precision: &'a Precision,
    ) -> Court<'a> {
        let healthy = Replay::given(stage, arithmetic, trace);
        Court {
            stage,
            trace,
            arithmetic,
            slack,
            precision,
            healthy,
            hasty: Cell::new(false),
            patience: Cell::new(WIDE_PATIENCE),
        }
    }

    /// The same, of another trace.
    pub(super) fn with<'b>(&self, trace: &'b Trace) -> Court<'b>
    where
        'a: 'b,
    {
        Court::new(self.stage, trace, (self.arithmetic, self.slack), self.precision)
    }

    pub(super) fn place(&self, id: NodeId, variant: f64) -> Place<'_> {
        let Stage { graph, gguf, tokens, .. } = *self.stage;
        Place { graph, gguf, node: &graph.nodes[id], id, tokens, variant }
    }

    /// A value of the trace beside what follows from its inputs; `None` where the two have nothing in common.
    pub(super) fn case(&self, id: NodeId) -> Option<Case> {
        let evidence = &self.trace.values[&self.stage.graph.nodes[id].key];
        let (expected, inputs) = self.healthy.recompute(id);
        let residual = self.residual(id, expected.clone())?;
        let span = span(self.stage, self.trace, id);
        let strict = Gate::of(self.stage.graph, &span, self.arithmetic, self.slack, evidence);
        let gate = match strict.status(&residual) {
            Status::Right | Status::Unreadable => strict,
            _ => strict.widened(self.deviation(id, &span, &expected)),
        };
        Some(Case { id, gate, residual, span, expected, inputs })
    }

    /// The limits for a value that the trace may not have.
    pub(super) fn gate(&self, id: NodeId, span: &BTreeSet<NodeId>, evidence: &Evidence) -> Gate {
        let strict = Gate::of(self.stage.graph, span, self.arithmetic, self.slack, evidence);
        let expected = self.healthy.recompute(id).0;
        strict.widened(self.deviation(id, span, &expected))
    }

    /// How far values come out that are computed as the suspect computes, except for the rounding of floats, or of what
    /// is multiplied.
    fn deviation(&self, id: NodeId, span: &BTreeSet<NodeId>, expected: &Value) -> f64 {
        let nodes = &self.stage.graph.nodes;
        let beside = span.iter().flat_map(|&id| nodes[id].inputs.iter().copied()).chain([id]);
        let unit = self.precision.unit(beside);
        let mut others: Vec<Arithmetic> = Vec::new();
        let quantized = |id: &NodeId| nodes[*id].kind.product().is_some_and(|weight| weight.format.block_len() > 1);
        let known = !matches!(self.arithmetic.rounding, Rounding::Exact | Rounding::Unknown);
        let away = |arithmetic: Arithmetic| -> f64 {
            let value = Replay::local(self.stage, arithmetic, &[], self.trace, id).value(id);
            let pairs = || value.data.iter().zip(&expected.data).filter(|(a, b)| a.is_finite() && b.is_finite());
            let off: f64 = pairs().map(|(a, b)| f64::from(a - b).powi(2)).sum();
            let of: f64 = pairs().map(|(_, b)| f64::from(*b).powi(2)).sum();
            (off / of.max(f64::MIN_POSITIVE)).sqrt()
        };
        if self.is_deep(span) {
            // One replay has to do for all that may be rounded.
            let noise = Noise { unit: unit.max(1e-6), seed: 1 };
            let cache = Cache { keys: Format::F16, values: Format::F16, ..Cache::default() };
            let rounding = if known { self.arithmetic.rounding } else { Rounding::Blocks(32) };
            others.push(Arithmetic { rounding, noise, cache, ..self.arithmetic });
            return others.into_iter().map(away).fold(0.0, f64::max);
        }
        if unit > 0.0 {
            others.extend([1, 2].map(|seed| Arithmetic { noise: Noise { unit, seed }, ..self.arithmetic }));
        }
        if span.len() > WITHIN && span.iter().any(quantized) && !known {
            others.push(Arithmetic { rounding: Rounding::Blocks(32), ..self.arithmetic });
        }
        if span.len() > WITHIN {
            // Sums in floats, and keys and values in halves.
            let noise = Noise { unit: 1e-6, seed: 3 };
            let cache = Cache { keys: Format::F16, values: Format::F16, ..Cache::default() };
            others.push(Arithmetic { noise, cache, ..self.arithmetic });
        }
        if self.arithmetic.cache != Cache::default() {
            // Engines may turn heads before they round them, so that other numbers are rounded.
            let noise = Noise { unit: 1e-6, seed: 3 };
            others.push(Arithmetic { noise, cache: Cache::default(), ..self.arithmetic });
        }
        others.into_iter().map(away).fold(0.0, |most, off| if off.is_finite() { most.max(off) } else { most })
    }

    /// Whether so much lies between the suspect's values that a replay of it takes a good part of a second.
    pub(super) fn is_deep(&self, span: &BTreeSet<NodeId>) -> bool {
        const MUCH: usize = 1 << 29;
        self.stage.work(span) > MUCH
    }

    /// The first wrong row, where all rows before it are right and all after it wrong.
    pub(super) fn begins(&self, case: &Case) -> Option<usize> {
        let node = &self.stage.graph.nodes[case.id];
        let expected = case.expected.clone().joined(node.per_token);
        let got = self.trace.values[&node.key].dense(expected.rows, expected.width)?;
        let far = |(got, row): (&[f32], usize)| -> bool {
            let pairs = || got.iter().zip(expected.row(row));
            let off: f64 = pairs().map(|(a, b)| f64::from(a - b).powi(2)).sum();
            let of: f64 = pairs().map(|(_, b)| f64::from(*b).powi(2)).sum();
            off.sqrt() > case.gate.wrong * of.sqrt()
        };
        let wrong: Vec<bool> = got.chunks_exact(expected.width.max(1)).zip(0..).map(far).collect();
        let first = wrong.iter().position(|&wrong| wrong)?;
        (first > 0 && wrong[first..].iter().all(|&wrong| wrong)).then_some(first)
    }

    /// How far the suspect is from a value.
    fn residual(&self, id: NodeId, value: Value) -> Option<Residual> {
        let Stage { graph, tokens, .. } = self.stage;
        let node = &graph.nodes[id];
        let evidence = &self.trace.values[&node.key];
        let counts = graph.counts(id, tokens);
        // What is made of NaN may be NaN, whichever way it was computed.
        let spoilt = self.spoilt(id);
        let is_none =
            |row: usize, col: usize| match (&evidence.known, evidence.dense(tokens.rows(node.side), evidence.width)) {
                (Known::All(_), Some(values)) => !values[row * evidence.width + col].is_finite(),
                _ => false,
            };
        compare_where(&value.joined(node.per_token), evidence, |row, col| {
            counts(row, col) && !(spoilt && is_none(row, col))
        })
    }

    /// Whether an input that the trace has holds numbers that are none.
    fn spoilt(&self, id: NodeId) -> bool {
        let inputs = self.stage.graph.nodes[id].inputs.iter();
        inputs
            .filter_map(|&input| self.trace.values.get(&self.stage.graph.nodes[input].key))
            .any(|evidence| matches!(&evidence.known, Known::All(values) if values.iter().any(|x| !x.is_finite())))
    }

    /// How far faults are from what the suspect has; `None` where they change nothing.
    pub(super) fn try_faults(&self, faults: &[Active], case: &Case) -> Option<Residual> {
        let edits = || faults.iter().flat_map(|active| active.fault.edits.iter().map(move |edit| (active, edit)));
        if case.span.len() == 1 && edits().all(|(_, edit)| matches!(edit, Edit::Output(_))) {
            // What comes out is changed: no need to compute it again.
            let mut value = case.expected.clone();
            let mut changed = vec![false; faults.len()];
            for (index, active) in faults.iter().enumerate() {
                for edit in active.fault.edits {
                    if let Edit::Output(edit) = edit {
                        changed[index] |= edit(&mut value, &case.inputs, &self.place(case.id, active.variant));
                    }
                }
            }
            return changed.into_iter().all(|changed| changed).then(|| self.residual(case.id, value))?;
        }
        let replay = Replay::local(self.stage, self.arithmetic, faults, self.trace, case.id);
        let value = replay.value(case.id);
        replay.all_applied().then(|| self.residual(case.id, (*value).clone()))?
    }

    /// The faults that reproduce a value, and the best of those that do not; `known` are faults found
    /// before, tried first: an engine that is wrong once is wrong in the same way in every layer.
    pub(super) fn search(&self, case: &Case, known: &[Vec<Active>]) -> (Vec<Match>, Option<Match>) {
        let attempt = |faults: Vec<Active>| {
            let residual = self.try_faults(&faults, case)?;
            Some(Match { faults, residual })
        };
        let (found, _) = sort_out(known.iter().cloned().filter_map(attempt).collect(), case);
        if !found.is_empty() {
            return (found, None);
        }
        let concerned = suspects().filter(|active| self.spans(active, case));
        let wide = case.span.len() > WITHIN;
        let until = self.is_deep(&case.span).then(|| Instant::now() + PATIENCE);
        let mut tried: Vec<Match> = Vec::new();
        for active in concerned {
            if until.is_some_and(|until| Instant::now() > until) {
                self.hasty.set(true);
                break;
            }
            tried.extend(attempt(vec![active]));
        }
        for fault in catalogue().filter(|_| until.is_none()) {
            let Some(fit) = &fault.fit else { continue };
            let active = Active::new(fault, fault.variants[0]);
            if self.spans(&active, case) {
                tried.extend(self.fitted(active, fit, case, !wide));
            }
        }
        tried.sort_by(|a, b| a.residual.relative.total_cmp(&b.residual.relative));
        let from = if wide { WIDE_PAIRS_FROM } else { PAIRS_FROM };
        let mut best: Vec<Active> = tried.iter().take(from).map(|found| found.faults[0]).collect();
        // An engine may have its own way of something and a fault beside it.
        let own = tried.iter().skip(from).map(|found| found.faults[0]);
        let harmless = |active: &Active| active.fault.harm == Harm::Harmless || active.fault.name == ROUNDED;
        best.extend(own.filter(|active| wide && harmless(active)));
        let (found, rival) = sort_out(tried, case);
        if !found.is_empty() || until.is_some() || self.is_nothing(case.id) {
            return (found, rival);
        }
        let mut pairs = Vec::new();
        for (index, &a) in best.iter().enumerate().take(from) {
            for &b in best[index + 1..].iter().filter(|b| b.fault.name != a.fault.name) {
                pairs.extend([vec![a, b], vec![b, a]].into_iter().filter_map(attempt));
            }
        }
        let (found, pair_rival) = sort_out(pairs, case);
        let rival = pair_rival.or(rival);
        match found.is_empty() && wide && case.residual.relative < ALIKE {
            true => (self.search_wide(case), rival),
            false => (found, rival),
        }
    }

    /// Whether the suspect has zeros alone: two faults of which one takes away what the other puts in their place give these,
    /// whatever went wrong.
    fn is_nothing(&self, id: NodeId) -> bool {
        match &self.trace.values[&self.stage.graph.nodes[id].key].known {
            Known::All(values) => values.iter().all(|&x| x == 0.0),
            Known::Some(points) => points.iter().all(|&(.., x)| x == 0.0),
        }
    }

    /// What takes longest: faults of one operation where they could concern more, and numbers that nobody knows, for a
    /// value with much of a layer behind it.
    fn search_wide(&self, case: &Case) -> Vec<Match> {
        let begun = Instant::now();
        let until = begun + self.patience.get();
        let all =
            || catalogue().map(|fault| Active::new(fault, fault.variants[0])).filter(|active| self.spans(active, case));
        let alone: Vec<Active> = all().flat_map(|active| self.in_one_operation(active, case)).collect();
        let variants = |active: Active| active.fault.variants.iter().map(move |&variant| Active { variant, ..active });
        let fitted = |active: Active| {
            let fit = active.fault.fit.as_ref()?;
            self.fitted(active, fit, case, true)
        };
        let plain = |active| {
            let faults = vec![active];
            self.try_faults(&faults, case).map(|residual| Match { faults, residual })
        };
        let of_weights = |active: &&Active| active.fault.edits.iter().all(|edit| matches!(edit, Edit::Weight(_)));
        let ways: [Box<dyn Iterator<Item = Option<Match>>>; 3] = [
            Box::new(alone.iter().flat_map(|&active| variants(active)).map(plain)),
            Box::new(all().map(fitted)),
            Box::new(alone.iter().filter(of_weights).map(|&active| fitted(active))),
        ];
        let in_time = |_: &Option<Match>| Instant::now() < until;
        let found = ways
            .into_iter()
            .map(|way| sort_out(way.take_while(in_time).flatten().collect(), case).0)
            .find(|found| !found.is_empty());
        self.patience.set(self.patience.get().saturating_sub(begun.elapsed()));
        self.hasty.set(self.hasty.get() || found.is_none() && self.patience.get().is_zero());
        found.unwrap_or_default()
    }

    /// Whether a fault concerns anything that a value is computed from.
    fn spans(&self, active: &Active, case: &Case) -> bool {
        case.span.iter().any(|&id| concerns(active, &self.place(id, active.variant)))
    }

    /// The fault for each of the operations that it can concern, where there are more than one.
    fn in_one_operation(&self, active: Active, case: &Case) -> Vec<Active> {
        let one = |edit: &Edit| matches!(edit, Edit::Weight(_) | Edit::Norm(_) | Edit::Rope(_));
        let nodes = case.span.iter().map(|&id| (id, self.place(id, active.variant)));
        let ids: Vec<NodeId> = nodes
            .filter(|(_, place)| active.fault.edits.iter().any(one) && concerns(&active, place))
            .map(|(id, _)| id)
            .collect();
        let several = ids.len() > 1;
        ids.into_iter().filter(|_| several).map(|id| Active { only: Some(id), ..active }).collect()
    }

    /// Keys of failures that no known fault reproduces, with what can be said of them.
    pub(super) fn unexplained(&self, failures: &[Failure]) -> BTreeMap<Key, Vec<String>> {
        let unknown = failures.iter().filter(|failure| failure.matches.is_empty());
        unknown
            .map(|failure| {
                let replay = Replay::local(self.stage, self.arithmetic, &[], self.trace, failure.id);
                let Node { key, per_token, .. } = &self.stage.graph.nodes[failure.id];
                let expected = (*replay.value(failure.id)).clone().joined(*per_token);
                let lines = structure::describe(self.stage, failure.id, &expected, &self.trace.values[key]);
                (key.clone(), lines)
            })
            .collect()
    }
}

/// Matches that reproduce the value, best first, and the best that does not.
fn sort_out(mut tried: Vec<Match>, case: &Case) -> (Vec<Match>, Option<Match>) {
    tried.sort_by(|a, b| a.residual.relative.total_cmp(&b.residual.relative));
    let Some(best) = tried.first().map(|best| best.residual.relative) else { return (tried, None) };
    let accepted = best <= case.gate.pass && best <= 0.3 * case.residual.relative;
    if !accepted {
        let rival = tried.into_iter().next();
        return (Vec::new(), rival);
    }
    // What cannot be distinguished from the best by the suspect's own rounding.
    let limit = best * 1.3 + case.gate.floor;
    let rest = tried.split_off(tried.partition_point(|found| found.residual.relative <= limit));
    (tried, rest.into_iter().next())
}
