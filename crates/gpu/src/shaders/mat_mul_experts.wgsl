// The inputs of choices of one expert with its matrix, as group.wgsl has sorted them. Grid: (outputs / 64, tiles).
struct P {
    runs: u32,
    stride: u32,
    tails: u32,
    rows: u32,
    first: u32,
    x_stride: u32,
    out_stride: u32,
    outputs: u32, // of an expert
    same: u32, // choices with the same inputs
    order: u32, // where the sorted choices begin
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> x: array<Input>;
@group(0) @binding(3) var<storage, read> sorted: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

struct Work {
    first: u32, // output
    matrix: u32, // row of the expert's first output in the whole
    choices: u32, // where they are listed
    inputs: u32,
}

fn assigned(group: vec3<u32>) -> Work {
    let at = 4u + group.y * 4u;
    var work = Work(group.x * SIDE, sorted[at] * p.outputs, p.order + sorted[at + 1u], sorted[at + 2u]);
    let row = work.matrix + work.first;
    // There are fewer tiles, or all of it lies in other parts of the matrix.
    if group.y >= sorted[0] || row + SIDE <= p.first || row >= p.first + p.rows {
        work.inputs = 0u;
    }
    return work;
}

fn matrix_row(work: Work, line: u32) -> u32 {
    let row = work.matrix + min(work.first + line, p.outputs - 1u);
    return (clamp(row, p.first, p.first + p.rows - 1u) - p.first) * p.stride;
}

// Where a row of inputs begins, and how many runs of it come before those of the product, and there are in all.
fn input_row(work: Work, line: u32) -> u32 {
    return sorted[work.choices + line] / p.same * p.x_stride;
}

fn input_run(work: Work) -> u32 {
    return 0u;
}

fn input_runs() -> u32 {
    return p.runs;
}

fn store(work: Work, line: u32, column: u32, sum: f32) {
    let output = work.first + column;
    let row = work.matrix + output;
    if output < p.outputs && row >= p.first && row < p.first + p.rows {
        out[sorted[work.choices + line] * p.out_stride + output] = sum;
    }
}
