//! Which pages of a cache hold which positions of its sequences: those that begin alike share pages until one of them writes.
//! What is in a page is not known here.

use crate::RING;

/// Positions of a page.
pub const PAGE: usize = RING;

/// The pages of every sequence: as many as all of them together need if none is shared, so that there is always one for
/// whoever has to part from a shared one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Pages of a sequence.
    each: usize,
    /// `[sequence][position / PAGE]`.
    table: Vec<u32>,
    /// How many sequences have a page.
    users: Vec<u32>,
}

/// A page that has to be copied to another one before that is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Where others still have it.
    pub from: usize,
    /// Where it goes.
    pub to: usize,
}

impl Pages {
    /// Pages for so many sequences of so many positions; nothing is shared, and they lie in the order of their positions.
    pub fn new(sequences: usize, positions: usize) -> Pages {
        let each = positions.div_ceil(PAGE);
        Pages { each, table: (0..(sequences * each) as u32).collect(), users: vec![1; sequences * each] }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.users.len()
    }

    /// Those of all sequences, one after the other.
    pub fn all(&self) -> &[u32] {
        &self.table
    }

    /// Those of a sequence, in the order of its positions.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn of(&self, sequence: usize) -> &[u32] {
        &self.table[sequence * self.each..][..self.each]
    }

    /// Has a sequence begin with the pages of another that hold its first `positions`.
    ///
    /// # Panics
    /// If there are no such sequences or positions.
    pub fn share(&mut self, from: usize, to: usize, positions: usize) {
        let count = positions.div_ceil(PAGE);
        assert!(count <= self.each, "{positions} positions are {count} pages of {}", self.each);
        for number in 0..count {
            let (page, other) = (self.table[from * self.each + number], &mut self.table[to * self.each + number]);
            self.users[*other as usize] -= 1;
            self.users[page as usize] += 1;
            *other = page;
        }
    }

    /// Has a sequence own the page of a position, which it is about to write to.
    ///
    /// # Panics
    /// If there is no such sequence or position.
    pub fn own(&mut self, sequence: usize, position: usize) -> Option<Moved> {
        assert!(position / PAGE < self.each, "position {position} is outside of {} pages", self.each);
        let place = sequence * self.each + position / PAGE;
        let from = self.table[place] as usize;
        if self.users[from] == 1 {
            return None;
        }
        // Back to where it was in the beginning, if that can be: pages in order are read in one run.
        let unused = |&page: &usize| self.users[page] == 0;
        let to = Some(place).filter(unused).or_else(|| (0..self.users.len()).find(unused));
        let to = to.expect("a shared page leaves another one unused");
        self.users[from] -= 1;
        self.users[to] = 1;
        self.table[place] = to as u32;
        Some(Moved { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_shared_until_somebody_writes() {
        let mut pages = Pages::new(3, 2 * PAGE + 1);
        assert_eq!((pages.count(), pages.of(1)), (9, &[3, 4, 5][..]));
        assert_eq!(pages.own(1, PAGE), None);
        pages.share(0, 1, PAGE + 1);
        pages.share(1, 2, PAGE + 1);
        assert_eq!([pages.of(0), pages.of(1), pages.of(2)], [[0, 1, 2], [0, 1, 5], [0, 1, 8]]);
        // Who writes first moves to where it was, even the one that had the page before.
        assert_eq!(pages.own(1, PAGE + 1), Some(Moved { from: 1, to: 4 }));
        assert_eq!(pages.own(0, PAGE + 1), Some(Moved { from: 1, to: 2 + 1 }));
        assert_eq!(pages.own(2, PAGE + 1), None);
        assert_eq!([pages.of(0), pages.of(1), pages.of(2)], [[0, 3, 2], [0, 4, 5], [0, 1, 8]]);
        // With itself there is nothing to share.
        pages.share(2, 2, 3);
        assert_eq!(pages.own(2, 2 * PAGE), None);
    }

    /// Sequences as lists of what each page holds, without any sharing, through many steps.
    #[test]
    fn sequences_keep_what_they_have() {
        const SEQUENCES: usize = 4;
        const EACH: usize = 3;
        let mut seed = 7u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        let mut pages = Pages::new(SEQUENCES, EACH * PAGE);
        let mut held = vec![0; pages.count()];
        let mut expected = [[0; EACH]; SEQUENCES];
        let mut moves = 0;
        for step in 1..5000 {
            let (sequence, number) = (random(SEQUENCES), random(EACH));
            if random(3) == 0 {
                let to = random(SEQUENCES);
                pages.share(sequence, to, number * PAGE + 1);
                let own = expected[sequence];
                expected[to][..=number].copy_from_slice(&own[..=number]);
            } else {
                if let Some(Moved { from, to }) = pages.own(sequence, number * PAGE + random(PAGE)) {
                    held[to] = held[from];
                    moves += 1;
                }
                held[pages.of(sequence)[number] as usize] = step;
                expected[sequence][number] = step;
            }
            for (sequence, expected) in expected.iter().enumerate() {
                let got: Vec<_> = pages.of(sequence).iter().map(|&page| held[page as usize]).collect();
                assert_eq!(got, expected, "step {step}, sequence {sequence}");
            }
        }
        assert!(moves > 500, "{moves}");
    }
}
