//! Outputs that several threads write, of every kind of split, in shapes just large enough for several pieces: what `cargo xtask miri` follows
//! access by access, to find pieces that overlap. That the numbers are right is for the other files to say.

use candor_cpu::{Cpu, CpuOptions};
use candor_ops::{Gate, Heads, KvFormat, Ops, Prims, Router, Tensor};
use candor_quant::Format;
use candor_testing::backend::attention::{Case, attended, looked};
use candor_testing::backend::experts::{self, per_head};
use candor_testing::backend::products::product;
use candor_testing::backend::recurrent::{Fading, Scan, convolved, scanned};
use candor_testing::backend::{Random, bits, floats, read, upload};

use crate::batch::{LEAST, TABLE};

/// What one thread makes is what several make.
fn alike(case: &str, op: impl Fn(&mut Cpu) -> Vec<f32>) {
    let cpu = |threads| Cpu::new(CpuOptions { threads, kernels: &TABLE, ..CpuOptions::default() });
    assert_eq!(bits(&op(&mut cpu(1))), bits(&op(&mut cpu(3))), "{case}");
}

/// A matrix of floats, and one whose inputs are rounded.
fn matrices(outputs: usize) -> [Tensor; 2] {
    let mut random = Random(1);
    [floats(outputs, 64, &random.floats(outputs * 64)), random.matrix(Format::Q8_0, outputs, 64)]
}

#[test]
fn products_of_one_input_and_of_several() {
    let (x, tensor) = (Random(2).floats(256), floats(64, 256, &Random(3).floats(64 * 256)));
    alike("one input", |ops| product(ops, &tensor, &x));
    for tensor in &matrices(96) {
        let x = Random(3).floats(5 * 64);
        alike("five inputs", |ops| {
            let (w, x) = (ops.weight(tensor.clone()).expect("every format runs"), upload(ops, 64, &x));
            let (mut sum, mut out) = (upload(ops, 96, &[0.5; 5 * 96]), ops.buffer(5, 96));
            ops.matmul_add(&mut sum, &x, &w, &mut out);
            read(ops, &sum)
        });
    }
}

#[test]
fn products_of_packed_inputs() {
    let ([_, tensor], x) = (matrices(64), Random(4).floats(LEAST * 64));
    alike("packed", |ops| product(ops, &tensor, &x));
}

#[test]
fn products_of_experts_and_of_heads() {
    let router = Router { experts: 2, used: 2, gate: Gate::Softmax, groups: (1, 1), normalized: false, scale: 1.0 };
    for tensor in &matrices(2 * 33) {
        for rows in [1, 2, LEAST] {
            let case = experts::Case { router, rows, bias: false, steps: 0.0, seed: 3 };
            let x = Random(5).floats(rows * 64);
            alike(&format!("experts of {rows} rows"), |ops| experts::products(ops, &case, tensor, &x));
        }
        let x = Random(6).floats(3 * 2 * 64);
        alike("heads", |ops| per_head(ops, tensor, &x, 2));
    }
}

#[test]
fn attention_by_heads_and_by_blocks() {
    let heads = |heads, kv_heads| Heads { heads, kv_heads, key_dim: 3, value_dim: 2, scale: 0.2 };
    let case = |heads, lengths| Case { heads, format: (KvFormat::F32, KvFormat::F16), lengths, seed: 7 };
    let many = case(heads(4, 4), [3, 2]);
    alike("a task for each head", |ops| attended(ops, &many, 2));
    let one = case(heads(4, 1), [2, 0]);
    alike("heads of one task", |ops| attended(ops, &one, 1));
    let floats = (KvFormat::F32, KvFormat::F32);
    let long = Case { format: floats, ..case(heads(1, 1), [258, 0]) };
    alike("blocks of one task", |ops| looked(ops, &long, 1));
}

#[test]
fn states_of_columns_and_of_heads() {
    alike("columns", |ops| convolved(ops, (65, 2), [3, 1], |_| 2).concat());
    let scan = |shape, fading| Scan { shape, fading, erase: false, bonus: false };
    let many = scan((65, 1, 2, 1), Fading::Rates);
    alike("heads with a key in common", |ops| scanned(ops, &many, [3, 1], |_| 2).concat());
    let few = Scan { erase: true, ..scan((2, 1, 8, 16), Fading::Keys) };
    alike("heads", |ops| scanned(ops, &few, [3, 1], |_| 2).concat());
}
