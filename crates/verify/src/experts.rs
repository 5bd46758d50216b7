//! Mixtures of experts on the backend that is watched: its own choice is held against the router's definition, and what it
//! makes of the choice against formulas.

use candor_ops::{Ops, Router, Tensor};

use crate::{
    checked::{Checked, RELATIVE, Routes, SUMS, numbers, part, table_row},
    formulas::{self, CHAIN, Expected, ROUNDING},
};

/// Experts whose numbers are as near as this may be taken for each other.
const NEAR: f32 = 1e-5;
const CHOICE: &str = "relative to the weight of the expert; one that should not have been chosen has none";

impl<B: Ops> Checked<B> {
    /// What follows has a row for each choice, of the token that chose.
    fn by_choice(&mut self, used: usize, check: impl FnOnce(&mut Self)) {
        let repeated = self.positions.iter().flat_map(|&position| std::iter::repeat_n(position, used)).collect();
        let positions = std::mem::replace(&mut self.positions, repeated);
        check(self);
        self.positions = positions;
    }

    /// The weights of the experts that were chosen. A choice is right if it is that of the definition where the chosen have a
    /// head start of [`NEAR`].
    pub(crate) fn check_choice<R>(
        &mut self,
        routes: &Routes<R>,
        logits: &[f32],
        bias: Option<&Tensor>,
        router: Router,
    ) {
        let place = match bias {
            Some(bias) => self.at(bias),
            None => self.here(),
        };
        let bias = bias.map_or_else(|| vec![0.0; router.experts], numbers);
        let rows = logits.len() / router.experts.max(1);
        let mut expected = Vec::with_capacity(rows * router.used);
        for (t, logits) in logits.chunks_exact(router.experts).enumerate() {
            let chosen = routes.chosen.get(t * router.used..(t + 1) * router.used).unwrap_or_default();
            let mut favoured = bias.clone();
            for &(expert, _) in chosen {
                if let Some(bias) = favoured.get_mut(expert as usize) {
                    *bias += NEAR;
                }
            }
            let mut right = router.choose(logits, Some(&favoured));
            for &(expert, _) in chosen {
                // Each is chosen once.
                let found = right.iter().position(|(other, _)| *other == expert as usize);
                let weight = found.map_or(f64::NAN, |found| right.swap_remove(found).1);
                expected.push(formulas::relative(weight, CHAIN));
            }
        }
        expected.resize(rows * router.used, formulas::relative(f64::NAN, CHAIN));
        let got: Vec<f32> = routes.chosen.iter().map(|choice| choice.1).collect();
        self.compare(("route", CHOICE), place, router.used, &got, expected);
    }

    /// Each expert's product of the rows that went to it.
    pub(crate) fn check_products<R>(
        &mut self,
        routes: &Routes<R>,
        x: &[f32],
        w: &Tensor,
        (got, outputs): (&[f32], usize),
    ) {
        let choices = routes.chosen.len();
        let shared = if x.len() == choices * w.cols { 1 } else { routes.used };
        for expert in 0..w.rows / outputs.max(1) {
            let mine: Vec<usize> = (0..choices).filter(|&i| routes.chosen[i].0 as usize == expert).collect();
            if mine.is_empty() {
                continue;
            }
            let gather = |all: &[f32], width: usize, shared: usize| -> Vec<f32> {
                let row = |&choice: &usize| all.get(choice / shared * width..(choice / shared + 1) * width);
                // A row that is not there is as wrong as one of NaN.
                mine.iter().flat_map(|choice| row(choice).map_or(vec![f32::NAN; width], <[f32]>::to_vec)).collect()
            };
            let (x, got) = (gather(x, w.cols, shared), gather(got, outputs, 1));
            let token = |choice: &usize| self.positions.get(choice / routes.used).copied();
            let positions = mine.iter().filter_map(token).collect();
            let before = std::mem::replace(&mut self.positions, positions);
            self.compare_product("matmul_experts", &x, &part(w, expert * outputs..(expert + 1) * outputs), None, &got);
            self.positions = before;
        }
    }

    /// Each choice plus its expert's bias.
    pub(crate) fn check_biases<R>(&mut self, routes: &Routes<R>, x: &[f32], bias: &Tensor, got: &[f32]) {
        let place = self.at(bias);
        let rows = x.chunks_exact(bias.cols.max(1)).zip(&routes.chosen);
        let expected: Vec<Expected> = rows
            .filter(|(_, choice)| (choice.0 as usize) < bias.rows)
            .flat_map(|(row, choice)| {
                let bias = table_row(bias, choice.0 as usize);
                row.iter().zip(bias).map(|(&x, b)| formulas::sum_of_table(x, b)).collect::<Vec<_>>()
            })
            .collect();
        self.by_choice(routes.used, |checked| {
            checked.compare(("add_bias_experts", SUMS), place, bias.cols, got, expected);
        });
    }

    /// Each choice times its weight.
    pub(crate) fn check_scaling<R>(&mut self, routes: &Routes<R>, x: &[f32], (got, width): (&[f32], usize)) {
        let rows = x.chunks_exact(width).zip(&routes.chosen);
        let expected = rows.flat_map(|(row, choice)| {
            row.iter().map(|&x| formulas::relative(f64::from(x) * f64::from(choice.1), ROUNDING))
        });
        self.by_choice(routes.used, |checked| {
            checked.compare(("scale_experts", RELATIVE), checked.here(), width, got, expected);
        });
    }

    /// Each row's choices together.
    pub(crate) fn check_sums<R>(&mut self, routes: &Routes<R>, x: &[f32], (got, width): (&[f32], usize)) {
        let rows = x.chunks_exact((routes.used * width).max(1));
        let bound = ROUNDING * routes.used as f64;
        let expected = rows.flat_map(|row| {
            (0..width).map(move |c| {
                let terms = row.iter().skip(c).step_by(width).map(|&x| f64::from(x));
                let (value, scale) = terms.fold((0.0, 0.0), |(sum, size): (f64, f64), x| (sum + x, size + x.abs()));
                Expected { value, scale, bound }
            })
        });
        self.compare(("sum_experts", SUMS), self.here(), width, got, expected);
    }
}
