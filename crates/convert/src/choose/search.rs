//! The search for a choice: costs of tensors alone first, then exchanges that are measured on the whole.

use std::collections::HashMap;

use super::{
    Offer, allocate,
    allocate::{Move, moves, useful},
    costs::Costs,
};

/// How many rounds of measuring what was chosen, and choosing again.
const ROUNDS: usize = 3;

/// The share of an exchange's costs by which they may be wrong, at first.
const DOUBT: f64 = 0.25;

/// Relative squared errors below this hide behind those of rounded activations: Q6_K's is twice as large.
const LEAST_ERROR: f64 = 1e-4;

/// Tensors of an exchange.
const MOST_CHANGES: usize = 2;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The offer of each tensor, by its place.
    pub places: Vec<usize>,
    /// What each tensor costs alone.
    pub alone: Vec<f64>,
    /// The cost of all together, measured.
    pub measured: f64,
    /// Costs of `starts`, measured where the runs sufficed.
    pub starts: Vec<Option<f64>>,
    /// How often it was measured.
    pub runs: usize,
}

/// Searches the choice of least cost whose bytes are at most `budget`. `None` where the smallest offers are too large.
///
/// The `cost` of an offer is its relative squared error: what is not measured is told by it. `measure` gives the cost of a choice, in
/// which tensors without an offer are as they were; it is asked at most `runs` times, and at least once for each tensor that has a
/// choice and once for the whole. `starts` are choices of others: the search ends at none that is worse.
///
/// # Errors
/// What `measure` says.
pub fn search<E>(
    offers: &[Vec<Offer>],
    budget: u64,
    starts: &[Vec<usize>],
    runs: usize,
    mut measure: impl FnMut(&[Option<usize>]) -> Result<f64, E>,
) -> Result<Option<Chosen>, E> {
    let Some(guess) = allocate(&by_size(offers), budget) else { return Ok(None) };
    let mut done = 0;
    let mut measure = |choice: &[Option<usize>]| {
        done += 1;
        measure(choice)
    };
    let mut costs = Costs::new(offers);
    let nothing = vec![None; offers.len()];
    let mut alone = |costs: &mut Costs<'_>, tensor: usize, place: usize| {
        let mut choice = nothing.clone();
        choice[tensor] = Some(place);
        costs.note(tensor, place, measure(&choice)?);
        Ok::<_, E>(())
    };
    let choosable: Vec<usize> = (0..offers.len()).filter(|&tensor| offers[tensor].len() > 1).collect();
    let mut used = 0;
    for &tensor in &choosable {
        alone(&mut costs, tensor, probe(&offers[tensor], guess[tensor]))?;
        used += 1;
    }
    let mut places = guess;
    for round in 0..ROUNDS {
        places = allocate(&costs.offers(), budget).unwrap_or(places);
        let unknown = choosable.iter().filter(|&&tensor| !costs.knows(tensor, places[tensor])).copied();
        let unknown: Vec<usize> = unknown.collect();
        if unknown.is_empty() || round + 1 == ROUNDS || used + unknown.len() > runs / 2 {
            break;
        }
        for tensor in unknown {
            alone(&mut costs, tensor, places[tensor])?;
            used += 1;
        }
    }
    let mut walk = Walk::new(costs.offers(), budget);
    let mut measured_starts = Vec::new();
    walk.try_choice(&places, &mut measure)?;
    for start in starts {
        let fits = walk.bytes(start) <= budget && walk.tried.len() + used < runs;
        measured_starts.push(if fits { Some(walk.try_choice(start, &mut measure)?) } else { None });
    }
    while walk.tried.len() + used < runs {
        let Some(next) = walk.next_choice() else { break };
        walk.try_choice(&next, &mut measure)?;
    }
    let alone = walk.places.iter().enumerate().map(|(tensor, &place)| costs.of(tensor, place)).collect();
    let (places, measured) = (walk.places, walk.measured);
    Ok(Some(Chosen { places, alone, measured, starts: measured_starts, runs: done }))
}

/// The offer to measure where `guess` may be chosen: one whose error can be seen, the smallest such error up to the guess's.
fn probe(offers: &[Offer], guess: usize) -> usize {
    let error = |&place: &usize| offers[place].cost;
    let seen = (0..offers.len()).filter(|place| error(place) >= LEAST_ERROR.max(offers[guess].cost));
    let largest = || (0..offers.len()).max_by(|a, b| error(a).total_cmp(&error(b)));
    seen.min_by(|a, b| error(a).total_cmp(&error(b))).or_else(largest).unwrap_or(guess)
}

/// The offers as if all tensors were as sensitive: costs are errors by the share of the bytes.
fn by_size(offers: &[Vec<Offer>]) -> Vec<Vec<Offer>> {
    let of = |offers: &Vec<Offer>| {
        let most = offers.iter().map(|offer| offer.bytes).max().unwrap_or(0) as f64;
        offers.iter().map(|offer| Offer { cost: offer.cost * most, ..*offer }).collect()
    };
    offers.iter().map(of).collect()
}

/// A walk from choice to choice, each better than the one before.
struct Walk {
    /// With costs as they are known in the present choice.
    offers: Vec<Vec<Offer>>,
    budget: u64,
    /// The best choice yet, and its cost.
    places: Vec<usize>,
    measured: f64,
    /// What was measured.
    tried: HashMap<Vec<usize>, f64>,
    /// How often the cost of an offer was corrected.
    corrected: Vec<Vec<u32>>,
}

impl Walk {
    fn new(offers: Vec<Vec<Offer>>, budget: u64) -> Walk {
        let corrected = offers.iter().map(|offers| vec![0; offers.len()]).collect();
        Walk { offers, budget, places: Vec::new(), measured: f64::INFINITY, tried: HashMap::new(), corrected }
    }

    fn bytes(&self, places: &[usize]) -> u64 {
        self.offers.iter().zip(places).map(|(offers, &place)| offers[place].bytes).sum()
    }

    /// Measures a choice, learns from it, and goes there if it is better.
    fn try_choice<E>(
        &mut self,
        places: &[usize],
        measure: &mut impl FnMut(&[Option<usize>]) -> Result<f64, E>,
    ) -> Result<f64, E> {
        if let Some(&measured) = self.tried.get(places) {
            return Ok(measured);
        }
        let choice: Vec<Option<usize>> = places.iter().copied().map(Some).collect();
        let measured = measure(&choice)?;
        if !self.places.is_empty() {
            self.learn(places, measured);
        }
        if measured < self.measured {
            (self.places, self.measured) = (places.to_vec(), measured);
        }
        self.tried.insert(places.to_vec(), measured);
        Ok(measured)
    }

    /// Corrects the costs of the offers that differ from the present choice, so that they explain what was measured.
    fn learn(&mut self, places: &[usize], measured: f64) {
        let change =
            |tensor: usize| self.offers[tensor][places[tensor]].cost - self.offers[tensor][self.places[tensor]].cost;
        let changed: Vec<usize> = (0..places.len()).filter(|&at| places[at] != self.places[at]).collect();
        let predicted: f64 = changed.iter().map(|&tensor| change(tensor)).sum();
        let sizes: f64 = changed.iter().map(|&tensor| change(tensor).abs()).sum();
        // Of what differs in many, nothing can be learnt of each.
        if sizes <= 0.0 || changed.len() > MOST_CHANGES {
            return;
        }
        let wrong = measured - self.measured - predicted;
        let shares: Vec<f64> = changed.iter().map(|&tensor| change(tensor).abs() / sizes).collect();
        for (&tensor, share) in changed.iter().zip(shares) {
            self.offers[tensor][places[tensor]].cost += share * wrong;
            self.corrected[tensor][places[tensor]] += 1;
        }
    }

    /// An exchange of the best choice yet that was not tried, or where all were, of the next best.
    fn next_choice(&self) -> Option<Vec<usize>> {
        let mut tried: Vec<(&Vec<usize>, f64)> = self.tried.iter().map(|(places, &cost)| (places, cost)).collect();
        tried.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(b.0)));
        tried.iter().find_map(|(places, _)| self.next_to(places))
    }

    /// The exchange of a choice that promises most of those not tried, the doubt in its favour.
    fn next_to(&self, places: &[usize]) -> Option<Vec<usize>> {
        let left = self.budget as i64 - self.bytes(places) as i64;
        let useful: Vec<Vec<usize>> = self.offers.iter().map(|offers| useful(offers)).collect();
        let promise = |change: &Move| {
            let doubt = DOUBT / f64::from(1 + self.corrected[change.tensor][change.place]);
            change.saved + doubt * change.saved.abs()
        };
        let moves = moves(&self.offers, &useful, places);
        let mut found: Vec<(f64, Vec<&Move>)> = Vec::new();
        for (number, change) in moves.iter().enumerate() {
            if change.more <= left && change.saved > 0.0 {
                found.push((promise(change), vec![change]));
            }
            for other in &moves[number + 1..] {
                let promised = promise(change) + promise(other);
                let gives = change.saved > 0.0 || other.saved > 0.0;
                if other.tensor != change.tensor && change.more + other.more <= left && gives {
                    found.push((promised, vec![change, other]));
                }
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let choice = |changes: &[&Move]| {
            let mut places = places.to_vec();
            changes.iter().for_each(|change| places[change.tensor] = change.place);
            places
        };
        found.iter().map(|(_, changes)| choice(changes)).find(|places| !self.tried.contains_key(places))
    }
}
