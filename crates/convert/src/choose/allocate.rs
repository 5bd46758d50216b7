//! Which of its formats each tensor gets, where all together may take so many bytes: what costs least. A function of numbers.

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

/// Chooses an offer of each tensor, by its place, so that their bytes are at most `budget` and the sum of costs is small. `None` where
/// the smallest offers are too large.
///
/// Steps on the lower convex hulls of bytes and costs are taken by what they save for a byte, as a Lagrange multiplier would choose
/// them. Exchanges between two tensors then fill what is left. Equal numbers give equal choices.
pub fn allocate(offers: &[Vec<Offer>], budget: u64) -> Option<Vec<usize>> {
    let useful: Vec<Vec<usize>> = offers.iter().map(|offers| useful(offers)).collect();
    let mut chosen: Vec<usize> = useful.iter().map(|places| places.first().copied()).collect::<Option<_>>()?;
    let bytes = |chosen: &[usize]| offers.iter().zip(chosen).map(|(offers, &at)| offers[at].bytes).sum::<u64>();
    let mut left = budget.checked_sub(bytes(&chosen))?;
    for (tensor, place) in steps(offers, &useful) {
        let more = offers[tensor][place].bytes - offers[tensor][chosen[tensor]].bytes;
        if more <= left {
            left -= more;
            chosen[tensor] = place;
        }
    }
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

/// The steps of all hulls, the one first that saves most for a byte: the tensor, and the place that it goes to.
fn steps(offers: &[Vec<Offer>], useful: &[Vec<usize>]) -> Vec<(usize, usize)> {
    let mut steps = Vec::new();
    for (tensor, places) in useful.iter().enumerate() {
        let slope = |from: usize, to: usize| {
            let (from, to) = (&offers[tensor][from], &offers[tensor][to]);
            (from.cost - to.cost) / (to.bytes - from.bytes) as f64
        };
        let mut at = 0;
        while at + 1 < places.len() {
            let best = (at + 1..places.len()).reduce(|best, next| {
                if slope(places[at], places[next]) >= slope(places[at], places[best]) { next } else { best }
            });
            let Some(next) = best else { break };
            steps.push((slope(places[at], places[next]), tensor, places[next]));
            at = next;
        }
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    steps.into_iter().map(|(_, tensor, place)| (tensor, place)).collect()
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
