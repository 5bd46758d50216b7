//! Choosing experts.

/// How logits become the weights of experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    /// Softmax over all experts.
    Softmax,
    /// Softmax over the chosen ones.
    SoftmaxOfChosen,
    /// A sigmoid of each.
    Sigmoid,
    /// One after the other: the best, weighed by a softmax over those that come within this share of it, is left out for the
    /// next (Liu et al. 2023, SparseMixer; as Phi-3.5-MoE computes it when it is not trained).
    SparseMixer(f32),
}

/// A mixture of experts without its weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    /// Experts that there are.
    pub experts: usize,
    /// Experts that a row goes to.
    pub used: usize,
    /// How logits become weights.
    pub gate: Gate,
    /// Equal groups of experts, and how many of them a row may choose from: those with the greatest sum of their two best
    /// (DeepSeek-AI 2024). `(1, 1)` where there are no groups.
    pub groups: (usize, usize),
    /// Whether the chosen weights are divided by their sum.
    pub normalized: bool,
    /// On the weights, at last.
    pub scale: f32,
}

impl Router {
    /// The experts of one row, the best first, and their weights. Of equals the first is taken.
    pub fn choose(&self, logits: &[f32], bias: Option<&[f32]>) -> Vec<(usize, f64)> {
        let exact = |i: usize| f64::from(logits[i]);
        if let Gate::SparseMixer(share) = self.gate {
            let mut scores: Vec<f64> = (0..logits.len()).map(exact).collect();
            return (0..self.used).map(|_| take_best(&mut scores, &|i| exact(i).abs(), share.into())).collect();
        }
        let weights: Vec<f64> = match self.gate {
            Gate::Softmax => softmax(&(0..logits.len()).map(exact).collect::<Vec<_>>()),
            Gate::SoftmaxOfChosen | Gate::SparseMixer(_) => (0..logits.len()).map(exact).collect(),
            Gate::Sigmoid => (0..logits.len()).map(|i| 1.0 / (1.0 + (-exact(i)).exp())).collect(),
        };
        let biased: Vec<f64> =
            weights.iter().enumerate().map(|(i, w)| w + bias.map_or(0.0, |bias| f64::from(bias[i]))).collect();
        let allowed = self.allowed(&biased);
        let mut order: Vec<usize> = (0..logits.len()).filter(|&i| allowed[i]).collect();
        // Numbers that are none sort last, so that the choice is defined.
        let key = |i: usize| if biased[i].is_nan() { f64::NEG_INFINITY } else { biased[i] };
        order.sort_by(|&a, &b| key(b).total_cmp(&key(a)));
        order.truncate(self.used);
        let mut chosen: Vec<f64> = order.iter().map(|&i| weights[i]).collect();
        if self.gate == Gate::SoftmaxOfChosen {
            chosen = softmax(&chosen);
        }
        if self.normalized {
            // The least half-precision number above zero, as llama.cpp has it, keeps the division sound.
            let sum = chosen.iter().sum::<f64>().max(6.103_515_625e-5);
            chosen.iter_mut().for_each(|weight| *weight /= sum);
        }
        let scale = f64::from(self.scale);
        order.into_iter().zip(chosen.into_iter().map(|weight| weight * scale)).collect()
    }

    /// The experts of the groups that may be chosen from.
    fn allowed(&self, biased: &[f64]) -> Vec<bool> {
        let (groups, used) = self.groups;
        let size = biased.len() / groups.max(1);
        let score = |group: usize| {
            let mut best = [f64::NEG_INFINITY; 2];
            for &x in &biased[group * size..(group + 1) * size] {
                if x > best[0] {
                    best = [x, best[0]];
                } else if x > best[1] {
                    best[1] = x;
                }
            }
            if size == 1 { best[0] } else { best[0] + best[1] }
        };
        let mut order: Vec<usize> = (0..groups).collect();
        let scores: Vec<f64> = order.iter().map(|&group| score(group)).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let mut allowed = vec![groups <= 1; biased.len()];
        for &group in order.iter().take(used) {
            allowed[group * size..(group + 1) * size].fill(true);
        }
        allowed
    }
}

/// Takes the best of `scores` out of them, with its share among those near it.
fn take_best(scores: &mut [f64], size: &dyn Fn(usize) -> f64, share: f64) -> (usize, f64) {
    let best = (1..scores.len()).fold(0, |best, i| if scores[i] > scores[best] { i } else { best });
    let near = |i: usize| (scores[best] - scores[i]) / size(i).max(scores[best]) <= share;
    let sum: f64 = (0..scores.len()).filter(|&i| near(i)).map(|i| (scores[i] - scores[best]).exp()).sum();
    scores[best] = f64::NEG_INFINITY;
    (best, 1.0 / sum)
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let raised: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum: f64 = raised.iter().sum();
    raised.into_iter().map(|x| x / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Router =
        Router { experts: 4, used: 2, gate: Gate::Softmax, groups: (1, 1), normalized: false, scale: 1.0 };

    fn close(got: &[(usize, f64)], expected: &[(usize, f64)]) {
        let same = got.iter().zip(expected).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-7);
        assert!(same && got.len() == expected.len(), "{got:?}, expected {expected:?}");
    }

    #[test]
    fn gates() {
        // Softmax of these is 1/10, 2/10, 3/10, 4/10.
        let logits = [1f32, 2.0, 3.0, 4.0].map(f32::ln);
        close(&ROUTER.choose(&logits, None), &[(3, 0.4), (2, 0.3)]);
        close(&Router { normalized: true, ..ROUTER }.choose(&logits, None), &[(3, 4.0 / 7.0), (2, 3.0 / 7.0)]);
        let chosen = Router { gate: Gate::SoftmaxOfChosen, ..ROUTER };
        close(&chosen.choose(&logits, None), &[(3, 4.0 / 7.0), (2, 3.0 / 7.0)]);
        let sigmoid = Router { gate: Gate::Sigmoid, scale: 2.5, ..ROUTER };
        close(&sigmoid.choose(&logits, None), &[(3, 2.0), (2, 1.875)]);
    }

    #[test]
    fn a_bias_chooses_and_does_not_weigh() {
        let logits = [1f32, 2.0, 3.0, 4.0].map(f32::ln);
        close(&ROUTER.choose(&logits, Some(&[9.0, 0.0, 0.0, 0.0])), &[(0, 0.1), (3, 0.4)]);
    }

    #[test]
    fn groups_are_chosen_by_their_two_best() {
        let router = Router { gate: Gate::Sigmoid, groups: (2, 1), ..ROUTER };
        // The best expert is in the second group, the best pair in the first.
        let got = router.choose(&[2.0, 2.0, 3.0, -9.0], None);
        assert_eq!(got.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [0, 1]);
    }
}
