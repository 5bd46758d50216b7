// Products of ROWS rows of a head's matrix with the head's part of T rows of inputs that decode. Grid: (outputs / ROWS
// * batches, heads). From outside: T, ROWS, WG, `Input` and `products` (mat_vec_floats or mat_vec_bytes), and a `main`
// that sums up.
struct P {
    runs: u32,
    stride: u32,
    tails: u32,
    rows: u32,
    first: u32,
    x_stride: u32,
    out_stride: u32,
    outputs: u32, // of a head
    x_runs: u32, // of a row of inputs
    count: u32, // which count says where rows that decode begin
    skipped: u32, // of those
    batches: u32, // of T rows
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> x: array<Input>;
@group(0) @binding(3) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

const SUMS = ROWS * T;

struct Work { first: u32, head: u32, first_x: u32 }

fn assigned(group: vec3<u32>, groups: vec3<u32>) -> Work {
    return Work(group.x / p.batches * ROWS, group.y, step[0][p.count] + p.skipped + group.x % p.batches * T);
}

// Whether all of it lies in other parts of the matrix.
fn is_idle(work: Work) -> bool {
    let row = work.head * p.outputs + work.first;
    return row + ROWS <= p.first || row >= p.first + p.rows;
}

fn matrix_row(work: Work, r: u32) -> u32 {
    let row = work.head * p.outputs + min(work.first + r, p.outputs - 1u);
    return (clamp(row, p.first, p.first + p.rows - 1u) - p.first) * p.stride;
}

fn input_row(work: Work, t: u32) -> u32 {
    return (work.first_x + t) * p.x_stride;
}

fn input_run(work: Work) -> u32 {
    return work.head * p.runs;
}

fn input_runs() -> u32 {
    return p.x_runs;
}

fn store(work: Work, i: u32, sum: f32) {
    let output = work.first + i / T;
    let row = work.head * p.outputs + output;
    if output < p.outputs && row >= p.first && row < p.first + p.rows {
        out[(work.first_x + i % T) * p.out_stride + row] = sum;
    }
}
