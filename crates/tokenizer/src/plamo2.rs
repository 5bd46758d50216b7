//! PLaMo 2's tokenizer: of all ways to spell a text with tokens the one with the greatest sum of scores, searched from the
//! end. Scores are rounded to ten-thousandths, a character without a token becomes byte tokens.

use crate::kind::Kind;
use crate::trie::Trie;
use crate::vocab::Vocab;

/// What a score is multiplied with.
const SCALE: f32 = 1e4;
/// The cost of a character that is spelled in bytes.
const UNKNOWN: i64 = 10_000_000;
/// Tokens with a score below are never used.
const WORST: i64 = 20_000_000;

/// The tokens with their costs.
pub(crate) struct Plamo2 {
    tokens: Trie,
    /// The cost of each token.
    costs: Vec<i64>,
    /// The token of each byte.
    bytes: Box<[Option<u32>; 256]>,
}

/// The cheapest spelling of the rest of a text.
#[derive(Clone, Copy)]
struct Best {
    cost: i64,
    length: usize,
    /// `None` is byte tokens.
    id: Option<u32>,
}

impl Plamo2 {
    /// `scores` has one item for each token.
    pub fn new(vocab: &Vocab, scores: &[f32]) -> Plamo2 {
        let costs: Vec<i64> = scores
            .iter()
            .map(|&score| (-f64::from((score * SCALE).round()) as i64).clamp(-WORST * 100, WORST))
            .collect();
        let usable = |id: &u32| {
            scores[*id as usize].is_finite()
                && costs[*id as usize] < WORST
                && !vocab.kind(*id).any(Kind::RESERVED.with(Kind::BYTE))
        };
        let items = (0..vocab.len() as u32).filter(usable).filter_map(|id| Some((vocab.text(id)?.as_bytes(), id)));
        let bytes = std::array::from_fn(|byte| vocab.id(&format!("<0x{byte:02X}>")));
        Plamo2 { tokens: Trie::new(items.collect()), costs, bytes: Box::new(bytes) }
    }

    /// Whether some byte has no token.
    pub fn lacks_bytes(&self) -> bool {
        self.bytes.contains(&None)
    }

    /// Appends the ids of `text`, without a byte order mark at its start.
    pub fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut best = vec![Best { cost: 0, length: 0, id: None }; text.len() + 1];
        for (at, c) in text.char_indices().rev() {
            let mut here = Best { cost: i64::MAX, length: 0, id: None };
            // Of equal spellings the one with the longest token counts, bytes last.
            for (length, id) in self.tokens.prefixes(&text.as_bytes()[at..]) {
                let cost = best[at + length].cost + self.costs[id as usize];
                if cost <= here.cost {
                    here = Best { cost, length, id: Some(id) };
                }
            }
            let length = c.len_utf8();
            let cost = best[at + length].cost + UNKNOWN;
            best[at] = if cost < here.cost { Best { cost, length, id: None } } else { here };
        }
        let mut at = 0;
        while at < text.len() {
            let Best { length, id, .. } = best[at];
            match id {
                Some(id) => out.push(id),
                None => out.extend(text[at..at + length].bytes().filter_map(|byte| self.bytes[usize::from(byte)])),
            }
            at += length;
        }
    }
}
