//! Faults with a number that nobody knows beforehand: the number that explains a suspect's values best is searched for.

use super::court::{Case, Court, Match};
use crate::fault::{Active, Fit, Steps};

/// Points of a range that are looked at before the best of them is refined.
const POINTS: usize = 33;

/// Factors of a number that the model suggests, looked at besides.
const NEAR: [f64; 8] = [0.55, 0.7, 0.82, 0.93, 1.08, 1.22, 1.45, 1.8];

/// How often the refined interval is cut.
const CUTS: usize = 48;

/// Fewest elements that a searched number must explain: one number explains any one element.
const ENOUGH: usize = 4;

impl Court<'_> {
    /// The fault with the number that comes closest to what the suspect has: of those that the model suggests, or, if
    /// `search`, of the whole range.
    pub(super) fn fitted(&self, fault: Active, fit: &Fit, case: &Case, search: bool) -> Option<Match> {
        let attempt = |variant: f64| {
            let faults = vec![Active { variant, ..fault }];
            let residual = self.try_faults(&faults, case)?;
            Some(Match { faults, residual })
        };
        let numbers = |id| (fit.numbers)(&self.place(id, 0.0));
        let mut tried: Vec<Match> = case.span.iter().flat_map(|&id| numbers(id)).filter_map(attempt).collect();
        let (low, high) = fit.range;
        if search && case.residual.elements >= ENOUGH {
            match fit.steps {
                Steps::Whole => {
                    let rows = self.stage.tokens.ids.len().max(self.stage.tokens.text.len());
                    tried.extend((low as usize..=(high as usize).min(rows)).filter_map(|n| attempt(n as f64)));
                }
                Steps::Even => tried.extend(refine(points(low, high), |x| x, case.residual.relative, attempt)),
                Steps::Factors => {
                    // A number a little off from one that the model suggests is nearer to it than to any point.
                    let mut points = points(low.ln(), high.ln());
                    let suggested = case.span.iter().find_map(|&id| numbers(id).first().copied());
                    points.extend(suggested.into_iter().flat_map(|x| NEAR.map(|factor| (x * factor).ln())));
                    points.sort_by(f64::total_cmp);
                    tried.extend(refine(points, f64::exp, case.residual.relative, attempt));
                }
            }
        }
        tried.into_iter().min_by(|a, b| a.residual.relative.total_cmp(&b.residual.relative))
    }
}

/// Points spread evenly over a range.
fn points(low: f64, high: f64) -> Vec<f64> {
    (0..POINTS).map(|point| low + (high - low) * point as f64 / (POINTS - 1) as f64).collect()
}

/// The best of some points first, which are in order; then of what is between the neighbours of the best one, if that
/// comes nearer than no fault does.
fn refine(
    points: Vec<f64>,
    number: fn(f64) -> f64,
    healthy: f64,
    attempt: impl Fn(f64) -> Option<Match>,
) -> Option<Match> {
    let at = |x: f64| attempt(number(x));
    let coarse = points.iter().enumerate().filter_map(|(index, &x)| Some((index, at(x)?)));
    let by = |found: &Match| found.residual.relative;
    let (middle, mut best) = coarse.min_by(|a, b| by(&a.1).total_cmp(&by(&b.1)))?;
    if by(&best) > 0.97 * healthy {
        return Some(best);
    }
    let (mut from, mut to) = (points[middle.saturating_sub(1)], points[(middle + 1).min(points.len() - 1)]);
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let inner = |from: f64, to: f64| [to - golden * (to - from), from + golden * (to - from)];
    for _ in 0..CUTS {
        let [a, b] = inner(from, to);
        let (Some(left), Some(right)) = (at(a), at(b)) else { break };
        let (closer, next) = if by(&left) <= by(&right) { (left, (from, b)) } else { (right, (a, to)) };
        (from, to) = next;
        if by(&closer) < by(&best) {
            best = closer;
        }
    }
    // Six digits are what anyone would write down.
    let variant = best.faults[0].variant;
    if variant == 0.0 {
        return Some(best);
    }
    let digits = 10f64.powi(5 - variant.abs().log10().floor() as i32);
    let rounded = attempt((variant * digits).round() / digits).filter(|rounded| by(rounded) <= by(&best) + 1e-6);
    Some(rounded.unwrap_or(best))
}
