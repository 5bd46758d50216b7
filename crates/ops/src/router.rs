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

/// Room for a choice, so that one after the other takes no new memory.
#[derive(Clone, Debug, Default)]
pub struct Choosing {
    weights: Vec<f64>,
    biased: Vec<f64>,
    scores: Vec<f64>,
    order: Vec<usize>,
    allowed: Vec<bool>,
    chosen: Vec<(usize, f64)>,
}

impl Router {
    /// The experts of one row, the best first, and their weights. Of equals the first is taken.
    pub fn choose(&self, logits: &[f32], bias: Option<&[f32]>) -> Vec<(usize, f64)> {
        self.choose_in(&mut Choosing::default(), logits, bias).to_vec()
    }

    /// [`Router::choose`] in room that is there already.
    pub fn choose_in<'a>(&self, room: &'a mut Choosing, logits: &[f32], bias: Option<&[f32]>) -> &'a [(usize, f64)] {
        let Choosing { weights, biased, scores, order, allowed, chosen } = room;
        weights.clear();
        weights.extend(logits.iter().map(|&x| f64::from(x)));
        match self.gate {
            Gate::SparseMixer(share) => {
                chosen.clear();
                chosen.extend((0..self.used).map(|_| take_best(weights, logits, share.into())));
                return chosen;
            }
            Gate::Softmax => softmax(weights, |x| x),
            Gate::SoftmaxOfChosen => {}
            Gate::Sigmoid => weights.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
        }
        biased.clear();
        // Numbers that are none sort last, so that the choice is defined.
        let key = |x: f64| if x.is_nan() { f64::NEG_INFINITY } else { x };
        biased.extend(weights.iter().enumerate().map(|(i, w)| w + bias.map_or(0.0, |bias| f64::from(bias[i]))));
        self.allow(biased, scores, order, allowed);
        order.clear();
        order.extend((0..logits.len()).filter(|&i| allowed[i]));
        let better = |a: &usize, b: &usize| key(biased[*b]).total_cmp(&key(biased[*a])).then(a.cmp(b));
        if (1..order.len()).contains(&self.used) {
            order.select_nth_unstable_by(self.used - 1, better);
            order.truncate(self.used);
        }
        order.sort_unstable_by(better);
        chosen.clear();
        chosen.extend(order.iter().map(|&i| (i, weights[i])));
        if self.gate == Gate::SoftmaxOfChosen {
            softmax(chosen, |(_, weight)| weight);
        }
        if self.normalized {
            // The least half-precision number above zero, as llama.cpp has it, keeps the division sound.
            let sum = chosen.iter().map(|(_, weight)| weight).sum::<f64>().max(6.103_515_625e-5);
            chosen.iter_mut().for_each(|(_, weight)| *weight /= sum);
        }
        chosen.iter_mut().for_each(|(_, weight)| *weight *= f64::from(self.scale));
        chosen
    }

    /// The experts of the groups that may be chosen from.
    fn allow(&self, biased: &[f64], scores: &mut Vec<f64>, order: &mut Vec<usize>, allowed: &mut Vec<bool>) {
        let (groups, used) = self.groups;
        allowed.clear();
        allowed.resize(biased.len(), groups <= 1);
        if groups <= 1 {
            return;
        }
        let size = biased.len() / groups;
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
        scores.clear();
        scores.extend((0..groups).map(score));
        order.clear();
        order.extend(0..groups);
        order.sort_unstable_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
        for &group in order.iter().take(used) {
            allowed[group * size..(group + 1) * size].fill(true);
        }
    }
}

/// Takes the best of `scores` out of them, with its share among those near it.
fn take_best(scores: &mut [f64], logits: &[f32], share: f64) -> (usize, f64) {
    let best = (1..scores.len()).fold(0, |best, i| if scores[i] > scores[best] { i } else { best });
    let near = |i: usize| (scores[best] - scores[i]) / f64::from(logits[i].abs()).max(scores[best]) <= share;
    let sum: f64 = (0..scores.len()).filter(|&i| near(i)).map(|i| (scores[i] - scores[best]).exp()).sum();
    scores[best] = f64::NEG_INFINITY;
    (best, 1.0 / sum)
}

/// The softmax of what `score` finds in each item.
fn softmax<T>(items: &mut [T], score: impl Fn(&mut T) -> &mut f64) {
    let max = items.iter_mut().fold(f64::NEG_INFINITY, |max, item| max.max(*score(item)));
    let mut sum = 0.0;
    for item in &mut *items {
        let x = score(item);
        *x = (*x - max).exp();
        sum += *x;
    }
    items.iter_mut().for_each(|item| *score(item) /= sum);
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
