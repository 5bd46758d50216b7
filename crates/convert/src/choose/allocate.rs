//! Chooses one of its offers for each tensor, of least cost within a limit of bytes for all: a function of numbers.

use candor_gguf::Format;

/// A format that a tensor may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// The format.
    pub format: Format,
    /// Bytes in the file.
    pub bytes: u64,
    /// What it costs, in the unit of the caller: costs of tensors add up.
    pub cost: f64,
}

/// Into how many units what is left beyond the smallest offers is divided.
const UNITS: usize = 1 << 14;

/// Chooses an offer of each tensor, by its place, so that their bytes are at most `budget` and the sum of costs is small. `None` where
/// the smallest offers are too large.
///
/// This is the knapsack problem with a choice for each tensor, solved by dynamic programming: exactly where the bytes beyond the
/// smallest offers are at most 16,384, else with bytes rounded up to units. Exchanges between two tensors then fill what rounding
/// left. Equal numbers give equal choices.
pub fn allocate(offers: &[Vec<Offer>], budget: u64) -> Option<Vec<usize>> {
    let useful: Vec<Vec<usize>> = offers.iter().map(|offers| useful(offers)).collect();
    let smallest: Vec<usize> = useful.iter().map(|places| places.first().copied()).collect::<Option<_>>()?;
    let bytes = |chosen: &[usize]| offers.iter().zip(chosen).map(|(offers, &at)| offers[at].bytes).sum::<u64>();
    let room = budget.checked_sub(bytes(&smallest))?;
    let mut chosen = best_of_units(offers, &useful, room);
    let mut left = budget - bytes(&chosen);
    // Each saves something; rounding might go round in a circle.
    for _ in 0..8 * offers.len() {
        let Some(exchange) = best_exchange(offers, &useful, &chosen, left) else { break };
        for (tensor, place) in exchange {
            left = left + offers[tensor][chosen[tensor]].bytes - offers[tensor][place].bytes;
            chosen[tensor] = place;
        }
    }
    Some(chosen)
}

/// The choice of least cost whose bytes beyond the smallest offers, in units, are at most `room`.
fn best_of_units(offers: &[Vec<Offer>], useful: &[Vec<usize>], room: u64) -> Vec<usize> {
    let unit = room.div_ceil(UNITS as u64).max(1);
    let units = (room / unit) as usize;
    // By units: the least cost of the tensors so far, and for each tensor what was chosen there.
    let mut costs = vec![0.0; units + 1];
    let mut choices = Vec::with_capacity(offers.len());
    for (offers, places) in offers.iter().zip(useful) {
        let mut next = vec![f64::INFINITY; units + 1];
        let mut choice = vec![0u8; units + 1];
        for (number, &place) in places.iter().enumerate() {
            let more = (offers[place].bytes - offers[places[0]].bytes).div_ceil(unit);
            let Some(last) = units.checked_sub(usize::try_from(more).unwrap_or(usize::MAX)) else { continue };
            let first = units - last;
            for (at, &before) in costs[..=last].iter().enumerate() {
                let cost = before + offers[place].cost;
                if cost < next[first + at] {
                    (next[first + at], choice[first + at]) = (cost, number as u8);
                }
            }
        }
        costs = next;
        choices.push(choice);
    }
    let mut at = units;
    let mut chosen = vec![0; offers.len()];
    for (tensor, choice) in choices.iter().enumerate().rev() {
        let places = &useful[tensor];
        chosen[tensor] = places[usize::from(choice[at])];
        at -= (offers[tensor][chosen[tensor]].bytes - offers[tensor][places[0]].bytes).div_ceil(unit) as usize;
    }
    chosen
}

/// The offers that no other one beats in both bytes and cost, by their places, from small to large.
pub(super) fn useful(offers: &[Offer]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..offers.len()).collect();
    places.sort_by(|&a, &b| {
        offers[a].bytes.cmp(&offers[b].bytes).then(offers[a].cost.total_cmp(&offers[b].cost)).then(a.cmp(&b))
    });
    let mut least = f64::INFINITY;
    places.retain(|&place| {
        let better = offers[place].cost < least;
        least = least.min(offers[place].cost);
        better
    });
    places
}

/// The change of one tensor, or of two, that saves most and fits into `left` more bytes.
fn best_exchange(
    offers: &[Vec<Offer>],
    useful: &[Vec<usize>],
    chosen: &[usize],
    left: u64,
) -> Option<Vec<(usize, usize)>> {
    let mut best = (0.0, None);
    let mut consider = |saved: f64, exchange: &[(usize, usize)]| {
        if saved > best.0 {
            best = (saved, Some(exchange.to_vec()));
        }
    };
    let moves = moves(offers, useful, chosen);
    let (larger, smaller): (Vec<&Move>, Vec<&Move>) = moves.iter().partition(|change| change.more > 0);
    for up in larger {
        if up.more <= left as i64 {
            consider(up.saved, &[(up.tensor, up.place)]);
        }
        for down in smaller.iter().filter(|down| down.tensor != up.tensor && up.more + down.more <= left as i64) {
            consider(up.saved + down.saved, &[(down.tensor, down.place), (up.tensor, up.place)]);
        }
    }
    best.1
}

/// A change of one tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub tensor: usize,
    /// The offer that it goes to.
    pub place: usize,
    /// Bytes that it takes more; less than 0 where it takes fewer.
    pub more: i64,
    /// What it saves; less than 0 where it costs.
    pub saved: f64,
}

/// The changes of each tensor to the next useful offers, two to either side.
pub(super) fn moves(offers: &[Vec<Offer>], useful: &[Vec<usize>], chosen: &[usize]) -> Vec<Move> {
    let mut moves = Vec::new();
    for (tensor, places) in useful.iter().enumerate() {
        let own = &offers[tensor][chosen[tensor]];
        let at = places.iter().position(|&place| offers[tensor][place].bytes >= own.bytes).unwrap_or(places.len());
        for &place in places[at.saturating_sub(2)..].iter().take(5).filter(|&&place| place != chosen[tensor]) {
            let offer = &offers[tensor][place];
            moves.push(Move {
                tensor,
                place,
                more: offer.bytes as i64 - own.bytes as i64,
                saved: own.cost - offer.cost,
            });
        }
    }
    moves
}
