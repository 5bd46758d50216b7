//! A gated feed-forward as one operation has the bits of its parts, whatever shares the step.

use candor_cpu::{Cpu, CpuOptions};
use candor_kernels::Kernels;
use candor_ops::{Ops, Plain, Prims, Step, Tensor};
use candor_quant::Format::{self, *};
use candor_testing::backend::{Random, bits, read};

/// What is multiplied, and with what.
struct Case {
    tensors: [Tensor; 3],
    x: Vec<f32>,
    residual: Vec<f32>,
    decoding: usize,
}

impl Case {
    fn new(formats: [Format; 3], (width, hidden): (usize, usize), (inputs, decoding): (usize, usize)) -> Case {
        let mut random = Random((width + hidden + inputs) as u64);
        let shapes = [(hidden, width), (hidden, width), (width, hidden)];
        let tensors = [0, 1, 2].map(|i| random.matrix(formats[i], shapes[i].0, shapes[i].1));
        let [x, residual] = [(); 2].map(|()| random.floats(inputs * width));
        Case { tensors, x, residual, decoding }
    }

    /// The stream afterwards, and what is left in the room for the gate.
    fn run<B: Ops>(&self, ops: &mut B) -> [Vec<f32>; 2] {
        let [gate, up, down] = self.tensors.each_ref().map(|tensor| ops.weight(tensor.clone()).expect("it runs"));
        let (width, hidden) = (self.tensors[0].cols, self.tensors[0].rows);
        let (h, mut x) = (self.rows(ops, width, &self.x), self.rows(ops, width, &self.residual));
        let count = self.x.len() / width;
        let [mut a, mut b] = [(); 2].map(|()| ops.buffer(count, hidden));
        let mut product = ops.buffer(count, width);
        ops.gated_add(&mut x, &h, [&gate, &up, &down], [&mut a, &mut b, &mut product]);
        [read(ops, &x), read(ops, &a)]
    }

    fn rows<B: Prims>(&self, ops: &mut B, width: usize, values: &[f32]) -> B::Buf {
        let count = values.len() / width;
        let mut x = ops.buffer(count, width);
        ops.upload(&mut x, values, &Step { tokens: &vec![0; count], decoding: self.decoding, ..Step::default() });
        x
    }
}

fn cpu(kernels: &'static Kernels, threads: usize) -> Cpu {
    Cpu::new(CpuOptions { threads, kernels, ..CpuOptions::default() })
}

/// Formats, the widths of the stream and of the middle.
const SHAPES: &[([Format; 3], (usize, usize))] = &[
    ([Q4K, Q4K, Q6K], (768, 512)),
    ([Q8_0, Q8_0, Q8_0], (96, 352)),
    ([Q8_0, Q4_0, F16], (544, 301)),
    ([F16, F16, F16], (300, 700)),
    ([F16, F16, Q8_0], (31, 32)),
    ([F32, F32, F32], (270, 45)),
    ([Bf16, Bf16, F32], (270, 45)),
    ([Bf16, Bf16, Bf16], (600, 33)),
    ([Q4K, F16, Q4K], (256, 256)),
];

#[test]
fn it_has_the_bits_of_its_parts() {
    for (i, &(formats, widths)) in SHAPES.iter().enumerate() {
        for (inputs, decoding) in [(1, 0), (15, 2), (17, 0), (33, 1), (50, 50), (513, 0), (700, 16)] {
            if inputs > 500 && i > 3 {
                continue;
            }
            let case = Case::new(formats, widths, (inputs, decoding));
            for kernels in Kernels::all() {
                let [expected, _] = case.run(&mut Plain(cpu(kernels, 1)));
                assert!(expected.iter().all(|value| value.is_finite()));
                for threads in [1, 2, 5] {
                    let [got, _] = case.run(&mut cpu(kernels, threads));
                    let name = format!("{} {formats:?} {widths:?}, {inputs} and {decoding}, {threads}", kernels.name);
                    assert_eq!(bits(&got), bits(&expected), "{name}");
                }
            }
        }
    }
}

/// Sums become inputs at once: the room for them stays as it was; rows that decode have their own.
#[test]
fn values_in_between_are_never_rows() {
    for kernels in Kernels::available().filter(|kernels| kernels.name.starts_with("avx512") || kernels.name == "amx") {
        let formats = [F32, F16, Bf16].into_iter().chain((kernels.name == "amx").then_some(Q4K));
        for format in formats.filter(|&format| (kernels.batch)(format).is_some()) {
            let case = Case::new([format; 3], (256, 256), (40, 5));
            let [_, room] = case.run(&mut cpu(kernels, 2));
            let (prompts, others) = room.split_at(35 * 256);
            assert!(prompts.iter().all(|&value| value == 0.0), "{} {format}", kernels.name);
            assert!(others.iter().any(|&value| value != 0.0), "{} {format}", kernels.name);
        }
    }
}
