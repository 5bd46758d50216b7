//! Which pages of a cache hold which positions of its sequences. Pages come from a pool when positions are to be written and
//! go back when they are forgotten; sequences that begin alike share them until one of them writes. More may be promised than
//! the pool has: that it ran out is an answer. What is in a page is not known here.

use std::ops::Range;

use crate::RING;

/// Positions of a page.
pub const PAGE: usize = RING;

/// Stands in a table where a sequence has no page.
pub const ABSENT: u32 = u32::MAX;

/// The pages of every sequence, and those that are free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Pages of a sequence at most.
    each: usize,
    /// `[sequence][position / PAGE]`: a page or [`ABSENT`].
    table: Vec<u32>,
    /// How many sequences have a page.
    users: Vec<u32>,
    /// Pages without users.
    free: usize,
    /// A page below which all have users.
    lowest: usize,
}

/// A page that has to be copied to another one before that is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Where others still have it.
    pub from: usize,
    /// Where it goes.
    pub to: usize,
}

/// Says that the pool has fewer pages than a sequence needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cache is full: expected {needed} free pages, got {free}")]
pub struct Full {
    /// Pages that the sequence would have had to get.
    pub needed: usize,
    /// Pages that are free.
    pub free: usize,
}

impl Pages {
    /// A pool of `count` pages for sequences of up to `positions` positions, which have no pages yet.
    pub fn new(sequences: usize, positions: usize, count: usize) -> Pages {
        let each = positions.div_ceil(PAGE);
        let (table, users) = (vec![ABSENT; sequences * each], vec![0; count]);
        Pages { each, table, users, free: count, lowest: 0 }
    }

    /// Sequences that have pages for all their positions from the beginning on, in their order, and share none.
    pub fn apart(sequences: usize, positions: usize) -> Pages {
        let mut pages = Pages::new(sequences, positions, sequences * positions.div_ceil(PAGE));
        for sequence in 0..sequences {
            pages.reserve(sequence, 0..positions).expect("there is a page for each");
        }
        pages
    }

    /// Pages of the pool.
    pub fn count(&self) -> usize {
        self.users.len()
    }

    /// Pages that no sequence has.
    pub fn free(&self) -> usize {
        self.free
    }

    /// The pages of a sequence in the order of its positions, [`ABSENT`] where it has none.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn of(&self, sequence: usize) -> &[u32] {
        &self.table[sequence * self.each..][..self.each]
    }

    /// The page of a position.
    ///
    /// # Panics
    /// If there is no such sequence or position, or it has no page.
    pub fn page(&self, sequence: usize, position: usize) -> usize {
        let page = self.of(sequence)[position / PAGE];
        assert_ne!(page, ABSENT, "position {position} of sequence {sequence} has no page");
        page as usize
    }

    /// Has a sequence begin with the pages of another that hold its first `positions`, and give back all it had. With itself
    /// it shares everything already.
    ///
    /// # Panics
    /// If there are no such sequences or positions.
    pub fn share(&mut self, from: usize, to: usize, positions: usize) {
        let count = positions.div_ceil(PAGE);
        assert!(count <= self.each, "{positions} positions are {count} pages of {}", self.each);
        if from == to {
            return;
        }
        self.release(to, 0);
        for number in 0..count {
            let page = self.table[from * self.each + number];
            if page != ABSENT {
                self.users[page as usize] += 1;
            }
            self.table[to * self.each + number] = page;
        }
    }

    /// Has a sequence own the pages of positions that it is about to write to: free ones where it has none, and a copy where
    /// it shares one. A page lies behind the one before it if that can be, since memory is read in runs.
    ///
    /// # Errors
    /// If there are too few free pages; nothing is changed then.
    ///
    /// # Panics
    /// If there is no such sequence or position.
    pub fn reserve(&mut self, sequence: usize, positions: Range<usize>) -> Result<Vec<Moved>, Full> {
        let numbers = match positions.is_empty() {
            true => 0..0,
            false => positions.start / PAGE..positions.end.div_ceil(PAGE),
        };
        assert!(numbers.end <= self.each, "position {} is outside of {} pages", positions.end, self.each);
        let needed = self.of(sequence)[numbers.clone()].iter().filter(|&&page| !self.is_own(page)).count();
        if needed == 0 {
            return Ok(Vec::new());
        }
        if needed > self.free {
            return Err(Full { needed, free: self.free });
        }
        let mut moved = Vec::new();
        for number in numbers {
            let place = sequence * self.each + number;
            let from = self.table[place];
            if self.is_own(from) {
                continue;
            }
            let to = self.find(sequence, number);
            (self.users[to], self.table[place]) = (1, to as u32);
            self.free -= 1;
            if from != ABSENT {
                self.users[from as usize] -= 1;
                moved.push(Moved { from: from as usize, to });
            }
        }
        Ok(moved)
    }

    /// Takes from a sequence the pages that hold none of its first `len` positions; how many those are. They are free if no
    /// other sequence has them.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn release(&mut self, sequence: usize, len: usize) -> usize {
        let mut count = 0;
        for place in sequence * self.each + len.div_ceil(PAGE).min(self.each)..(sequence + 1) * self.each {
            let page = std::mem::replace(&mut self.table[place], ABSENT);
            if page == ABSENT {
                continue;
            }
            count += 1;
            let page = page as usize;
            self.users[page] -= 1;
            if self.users[page] == 0 {
                self.free += 1;
                self.lowest = self.lowest.min(page);
            }
        }
        count
    }

    /// Whether an entry of a table is a page that one sequence alone has.
    fn is_own(&self, page: u32) -> bool {
        page != ABSENT && self.users[page as usize] == 1
    }

    /// A free page, of which there is one: behind the sequence's page before it, or where it would be if all sequences shared the
    /// pool evenly, or the lowest.
    fn find(&mut self, sequence: usize, number: usize) -> usize {
        let is_free = |&page: &usize| self.users.get(page) == Some(&0);
        let before = number.checked_sub(1).map(|before| self.of(sequence)[before]).filter(|&page| page != ABSENT);
        // The last sequences begin where a whole one has room.
        let share = sequence * self.users.len() / (self.table.len() / self.each);
        let home = share.min(self.users.len().saturating_sub(self.each)) + number;
        let near = before.map(|page| page as usize + 1).filter(is_free).or(Some(home).filter(is_free));
        near.unwrap_or_else(|| {
            while self.users[self.lowest] > 0 {
                self.lowest += 1;
            }
            self.lowest
        })
    }
}

#[cfg(test)]
mod tests;
