//! States of fixed size, and how their numbers lie.

/// A state of all sequences.
pub(super) struct State {
    /// Numbers of a sequence.
    pub(super) len: usize,
    pub(super) order: Order,
    pub(super) numbers: Vec<f32>,
}

/// How the numbers of a sequence's state lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As operations define them; of heads that share keys, `[head][key]`.
    Defined,
    /// Heads in blocks of `heads`, each `[key][head]`, so that many heads go at once.
    Blocks { heads: usize, keys: usize },
}

impl State {
    pub(super) fn new(len: usize, sequences: usize) -> State {
        State { len, order: Order::Defined, numbers: vec![0.0; len * sequences] }
    }

    /// A sequence's numbers as operations define them.
    pub(super) fn in_order(&self, sequence: usize) -> Vec<f32> {
        let mut numbers = self.numbers[sequence * self.len..][..self.len].to_vec();
        self.order.undo(&mut numbers);
        numbers
    }

    pub(super) fn put_in_order(&mut self, sequence: usize, numbers: &[f32]) {
        let own = &mut self.numbers[sequence * self.len..][..self.len];
        own.copy_from_slice(numbers);
        self.order.arrange(own);
    }

    /// Gives one sequence's numbers to another.
    pub(super) fn copy(&mut self, from: usize, to: usize) {
        self.numbers.copy_within(from * self.len..(from + 1) * self.len, to * self.len);
    }

    /// Has the numbers lie another way from now on.
    pub(super) fn reorder(&mut self, order: Order) {
        if self.order != order {
            for numbers in self.numbers.chunks_exact_mut(self.len.max(1)) {
                self.order.undo(numbers);
                order.arrange(numbers);
            }
            self.order = order;
        }
    }
}

impl Order {
    fn arrange(self, numbers: &mut [f32]) {
        if let Order::Blocks { heads, keys } = self {
            numbers.chunks_mut(heads * keys).for_each(|block| turn(block, keys));
        }
    }

    fn undo(self, numbers: &mut [f32]) {
        if let Order::Blocks { heads, keys } = self {
            numbers.chunks_mut(heads * keys).for_each(|block| turn(block, block.len() / keys));
        }
    }
}

/// Rows of `cols` numbers become columns.
fn turn(numbers: &mut [f32], cols: usize) {
    let turned: Vec<f32> = (0..cols).flat_map(|col| numbers.iter().skip(col).step_by(cols).copied()).collect();
    numbers.copy_from_slice(&turned);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_keep_every_number() {
        // Two sequences of seven heads with three keys each, in blocks of four heads.
        let mut state = State::new(21, 2);
        let numbers: Vec<f32> = (0..21).map(|i| i as f32).collect();
        state.put_in_order(1, &numbers);
        assert_eq!(state.numbers[21..], numbers);
        state.reorder(Order::Blocks { heads: 4, keys: 3 });
        assert_eq!(state.numbers[21..33], [0., 3., 6., 9., 1., 4., 7., 10., 2., 5., 8., 11.]);
        assert_eq!(state.numbers[33..], [12., 15., 18., 13., 16., 19., 14., 17., 20.]);
        assert_eq!(state.in_order(1), numbers);
        state.put_in_order(0, &numbers);
        assert_eq!(state.numbers[..21], state.numbers[21..]);
        state.reorder(Order::Defined);
        assert_eq!(state.numbers[..21], numbers);
    }
}
