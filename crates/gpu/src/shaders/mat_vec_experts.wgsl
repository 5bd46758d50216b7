// Products of ROWS rows of a chosen expert's matrix with the inputs of the choice, of rows that decode. Grid: (outputs
// / ROWS, choices). From outside: T (1), ROWS, WG, `Input` and `products` (mat_vec_floats or mat_vec_bytes), and a
// `main` that sums up.
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
    count: u32, // which count says where rows that decode begin
    used: u32, // choices of a row
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> x: array<Input>;
@group(0) @binding(3) var<storage, read> choices: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

const SUMS = ROWS * T;

struct Work {
    first: u32, // output
    matrix: u32, // row of the expert's first output in the whole
    choice: u32,
}

fn assigned(group: vec3<u32>, groups: vec3<u32>) -> Work {
    let choice = step[0][p.count] * p.used + group.y;
    return Work(group.x * ROWS, choices[choice].x * p.outputs, choice);
}

// Whether all of it lies in other parts of the matrix.
fn is_idle(work: Work) -> bool {
    let row = work.matrix + work.first;
    return row + ROWS <= p.first || row >= p.first + p.rows;
}

fn matrix_row(work: Work, r: u32) -> u32 {
    let row = work.matrix + min(work.first + r, p.outputs - 1u);
    return (clamp(row, p.first, p.first + p.rows - 1u) - p.first) * p.stride;
}

fn input_row(work: Work, t: u32) -> u32 {
    return work.choice / p.same * p.x_stride;
}

fn input_run(work: Work) -> u32 {
    return 0u;
}

fn input_runs() -> u32 {
    return p.runs;
}

fn store(work: Work, i: u32, sum: f32) {
    let output = work.first + i;
    let row = work.matrix + output;
    if output < p.outputs && row >= p.first && row < p.first + p.rows {
        out[work.choice * p.out_stride + output] = sum;
    }
}
