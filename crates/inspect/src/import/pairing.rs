//! Queries and keys in the two orders rotary embedding knows: which elements of a head turn together.
//!
//! Hugging Face's checkpoints turn element `i` with `i + d/2`; Meta's, and GGUF files of the architecture `llama`, turn
//! `2i` with `2i + 1`, their query and key weights permuted to match. Scores are the same either way, queries and keys
//! are not until one is permuted: `interleaved[2i] = halves[i]`, `interleaved[2i + 1] = halves[i + d/2]`.

/// Which elements of a head make a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// `2i` with `2i + 1`: GGUF files of the architecture `llama`.
    Interleaved,
    /// `i` with `i + d/2`: Hugging Face, and other GGUF architectures.
    Halves,
}

/// Permutes `values`, `[rows, heads * head_dim]`, from one order to the other, head by head. A part at the end that is
/// no whole head stays as it is; so does everything where `from` is `to` or `head_dim` is odd or 0.
pub fn change_pairing(values: &mut [f32], head_dim: usize, from: Pairing, to: Pairing) {
    if from == to || head_dim == 0 || head_dim % 2 == 1 {
        return;
    }
    let half = head_dim / 2;
    let mut turned = vec![0.0; head_dim];
    for head in values.chunks_exact_mut(head_dim) {
        for pair in 0..half {
            let (apart, close) = ([pair, pair + half], [2 * pair, 2 * pair + 1]);
            let (source, target) = if to == Pairing::Interleaved { (apart, close) } else { (close, apart) };
            turned[target[0]] = head[source[0]];
            turned[target[1]] = head[source[1]];
        }
        head.copy_from_slice(&turned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        let halves = [0., 1., 2., 3., 10., 11., 12., 13.];
        let interleaved = [0., 2., 1., 3., 10., 12., 11., 13.];
        let mut values = halves;
        change_pairing(&mut values, 4, Pairing::Halves, Pairing::Interleaved);
        assert_eq!(values, interleaved);
        change_pairing(&mut values, 4, Pairing::Interleaved, Pairing::Halves);
        assert_eq!(values, halves);
        let mut six = [0., 1., 2., 3., 4., 5.];
        change_pairing(&mut six, 6, Pairing::Halves, Pairing::Interleaved);
        assert_eq!(six, [0., 3., 1., 4., 2., 5.]);
        change_pairing(&mut six, 6, Pairing::Interleaved, Pairing::Halves);
        assert_eq!(six, [0., 1., 2., 3., 4., 5.]);
        for (head_dim, to) in [(0, Pairing::Interleaved), (3, Pairing::Interleaved), (4, Pairing::Halves)] {
            let mut same = halves;
            change_pairing(&mut same, head_dim, Pairing::Halves, to);
            assert_eq!(same, halves);
        }
    }

    /// Rotating the halves and then permuting is permuting and then rotating neighbours.
    #[test]
    fn rotations_agree() {
        let angles = [0.3_f32, 1.1];
        let turn = |(x, y): (f32, f32), angle: f32| {
            let (sin, cos) = angle.sin_cos();
            (x * cos - y * sin, x * sin + y * cos)
        };
        let start = [0.5_f32, -1.0, 2.0, 0.25];
        let mut halves = start;
        let mut close = start;
        change_pairing(&mut close, 4, Pairing::Halves, Pairing::Interleaved);
        for (pair, &angle) in angles.iter().enumerate() {
            (halves[pair], halves[pair + 2]) = turn((halves[pair], halves[pair + 2]), angle);
            (close[2 * pair], close[2 * pair + 1]) = turn((close[2 * pair], close[2 * pair + 1]), angle);
        }
        change_pairing(&mut halves, 4, Pairing::Halves, Pairing::Interleaved);
        assert_eq!(halves, close);
    }
}
