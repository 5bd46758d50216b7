//! Choices of experts, products with their matrices, and products per head.

use candor_ops::{Gate, Ops, Prims, Router, Tensor};

use super::{Random, floats, read, upload};

/// Rows that are sent to experts.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// How experts are chosen.
    pub router: Router,
    /// Rows.
    pub rows: usize,
    /// Whether a bias is added to what is chosen by.
    pub bias: bool,
    /// Every logit is a multiple of this, so that there are ties; 0 leaves them as they are drawn.
    pub steps: f32,
    /// Of logits.
    pub seed: u64,
}

/// Every gate, with groups, ties and biases, for one row and for many.
pub fn cases() -> Vec<Case> {
    let router = |experts, used, gate, groups, normalized| Router {
        experts,
        used,
        gate,
        groups,
        normalized,
        scale: if normalized { 2.5 } else { 1.0 },
    };
    let routers = [
        router(2, 1, Gate::Softmax, (1, 1), false),
        router(8, 2, Gate::SoftmaxOfChosen, (1, 1), false),
        router(8, 8, Gate::Softmax, (1, 1), true),
        router(60, 4, Gate::Softmax, (1, 1), false),
        router(64, 6, Gate::Sigmoid, (8, 3), true),
        router(16, 3, Gate::Sigmoid, (16, 5), true),
        router(33, 5, Gate::Softmax, (3, 2), false),
    ];
    let mut all = Vec::new();
    for (i, router) in routers.into_iter().enumerate() {
        for (j, rows) in [1, 2, 7, 50].into_iter().enumerate() {
            let steps = if j % 2 == 1 { 0.5 } else { 0.0 };
            all.push(Case { router, rows, bias: (i + j) % 2 == 0, steps, seed: (i * 4 + j) as u64 });
        }
    }
    all
}

/// The choices of a case.
///
/// # Panics
/// If the backend refuses floats.
pub fn routes<B: Prims>(ops: &mut B, case: &Case) -> B::Routes {
    let Case { router, rows, bias, steps, seed } = *case;
    let mut random = Random(seed);
    let mut logits = random.floats(rows * router.experts);
    if steps > 0.0 {
        logits.iter_mut().for_each(|x| *x = (*x / steps).round() * steps);
    }
    let bias = bias.then(|| random.floats(router.experts));
    let bias = bias.map(|bias| ops.weight(floats(1, bias.len(), &bias)).expect("floats run"));
    let logits = upload(ops, router.experts, &logits);
    let mut routes = ops.routes(rows, router.used);
    ops.route(&mut routes, &logits, bias.as_ref(), router);
    routes
}

/// The expert and the weight of each choice, as other operations see them.
///
/// # Panics
/// As [`routes`].
pub fn choices<B: Prims>(ops: &mut B, case: &Case) -> (Vec<f32>, Vec<f32>) {
    let (routes, experts) = (routes(ops, case), case.router.experts);
    let all = case.rows * case.router.used;
    let names: Vec<f32> = (0..experts).map(|i| i as f32).collect();
    let names = ops.weight(floats(experts, 1, &names)).expect("floats run");
    let (mut chosen, mut weights) = (upload(ops, 1, &vec![0.0; all]), upload(ops, 1, &vec![1.0; all]));
    ops.add_bias_experts(&mut chosen, &names, &routes);
    ops.scale_experts(&mut weights, &routes);
    (read(ops, &chosen), read(ops, &weights))
}

/// Products of the rows of `x`, one per row of the case or one per choice, with the matrices of the chosen.
///
/// # Panics
/// If the backend refuses the tensor.
pub fn products<B: Prims>(ops: &mut B, case: &Case, tensor: &Tensor, x: &[f32]) -> Vec<f32> {
    let routes = routes(ops, case);
    let w = ops.weight(tensor.clone()).expect("every format runs");
    let x = upload(ops, tensor.cols, x);
    let mut out = ops.buffer(case.rows * case.router.used, tensor.rows / case.router.experts);
    ops.matmul_experts(&mut out, &x, &w, &routes);
    read(ops, &out)
}

/// [`Ops::matmul2_experts`]: both products, one after the other.
///
/// # Panics
/// If the backend refuses a tensor.
pub fn two_products<B: Ops>(ops: &mut B, case: &Case, tensors: [&Tensor; 2], x: &[f32]) -> Vec<f32> {
    let routes = routes(ops, case);
    let [a, b] = tensors.map(|tensor| ops.weight(tensor.clone()).expect("every format runs"));
    let x = upload(ops, tensors[0].cols, x);
    let mut out = tensors.map(|tensor| ops.buffer(case.rows * case.router.used, tensor.rows / case.router.experts));
    let [out_a, out_b] = &mut out;
    ops.matmul2_experts((out_a, &a), (out_b, &b), &x, &routes);
    out.iter().flat_map(|out| read(ops, out)).collect()
}

/// Biases, weights and the sum, on rows of `width` per choice.
///
/// # Panics
/// As [`routes`].
pub fn summed<B: Prims>(ops: &mut B, case: &Case, width: usize) -> Vec<f32> {
    let (routes, mut random) = (routes(ops, case), Random(case.seed + 100));
    let all = case.rows * case.router.used;
    let mut x = upload(ops, width, &random.floats(all * width));
    let experts = case.router.experts;
    let bias = ops.weight(floats(experts, width, &random.floats(experts * width))).expect("floats run");
    ops.add_bias_experts(&mut x, &bias, &routes);
    ops.scale_experts(&mut x, &routes);
    let mut out = ops.buffer(case.rows, width);
    ops.sum_experts(&mut out, &x, &routes);
    read(ops, &out)
}

/// `(rows, heads, columns in blocks of 256, outputs of a head)`.
pub const HEADS: &[(usize, usize, usize, usize)] =
    &[(1, 1, 1, 2), (1, 16, 2, 64), (2, 3, 1, 17), (7, 4, 1, 128), (40, 5, 1, 33)];

/// A product per head.
///
/// # Panics
/// If the backend refuses the tensor.
pub fn per_head<B: Prims>(ops: &mut B, tensor: &Tensor, x: &[f32], heads: usize) -> Vec<f32> {
    let w = ops.weight(tensor.clone()).expect("every format runs");
    let width = tensor.cols * heads;
    let (x, mut out) = (upload(ops, width, x), ops.buffer(x.len() / width, tensor.rows));
    ops.matmul_heads(&mut out, &x, &w, heads);
    read(ops, &out)
}
