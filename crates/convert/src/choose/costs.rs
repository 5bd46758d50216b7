//! What offers cost: measured of some, and of the others told by their errors.

use std::collections::BTreeMap;

use super::Offer;

/// What is known of costs: relative squared errors of all offers, and measures of some.
pub(super) struct Costs<'o> {
    offers: &'o [Vec<Offer>],
    /// By tensor and place.
    measured: BTreeMap<(usize, usize), f64>,
}

impl<'o> Costs<'o> {
    /// Nothing measured yet. The costs of `offers` are their errors.
    pub(super) fn new(offers: &'o [Vec<Offer>]) -> Costs<'o> {
        Costs { offers, measured: BTreeMap::new() }
    }

    /// Notes what an offer costs alone.
    pub(super) fn note(&mut self, tensor: usize, place: usize, cost: f64) {
        self.measured.insert((tensor, place), cost.max(0.0));
    }

    /// Whether an offer was measured.
    pub(super) fn knows(&self, tensor: usize, place: usize) -> bool {
        self.measured.contains_key(&(tensor, place))
    }

    /// What an offer costs: the divergence grows as the squared error, from the nearest one that was measured.
    pub(super) fn of(&self, tensor: usize, place: usize) -> f64 {
        if let Some(&cost) = self.measured.get(&(tensor, place)) {
            return cost;
        }
        let error = |place: usize| self.offers[tensor][place].cost;
        let own = error(place);
        let distance = |place: usize| (error(place).max(f64::MIN_POSITIVE) / own.max(f64::MIN_POSITIVE)).ln().abs();
        let known = self.measured.range((tensor, 0)..(tensor + 1, 0)).map(|(&(_, place), &cost)| (place, cost));
        let nearest = known.filter(|&(place, _)| error(place) > 0.0);
        match nearest.min_by(|a, b| distance(a.0).total_cmp(&distance(b.0))) {
            Some((place, cost)) => cost * own / error(place),
            None => own,
        }
    }

    /// The offers with these costs.
    pub(super) fn offers(&self) -> Vec<Vec<Offer>> {
        let of = |(tensor, offers): (usize, &Vec<Offer>)| {
            offers.iter().enumerate().map(|(place, offer)| Offer { cost: self.of(tensor, place), ..*offer }).collect()
        };
        self.offers.iter().enumerate().map(of).collect()
    }
}
