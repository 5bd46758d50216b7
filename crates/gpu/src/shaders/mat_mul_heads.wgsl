// A head's part of all rows of inputs with its matrix. Grid: (outputs / 64, heads, rows of inputs / 64).
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
    count: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> x: array<Input>;
@group(0) @binding(3) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

struct Work { first: u32, head: u32, first_x: u32, inputs: u32 }

fn assigned(group: vec3<u32>) -> Work {
    let first_x = group.z * SIDE;
    var work = Work(group.x * SIDE, group.y, first_x, min(step[0][p.count] - first_x, SIDE));
    let row = work.head * p.outputs + work.first;
    // All of it lies in other parts of the matrix.
    if row + SIDE <= p.first || row >= p.first + p.rows {
        work.inputs = 0u;
    }
    return work;
}

fn matrix_row(work: Work, line: u32) -> u32 {
    let row = work.head * p.outputs + min(work.first + line, p.outputs - 1u);
    return (clamp(row, p.first, p.first + p.rows - 1u) - p.first) * p.stride;
}

// Where a row of inputs begins, and how many runs of it come before those of the product, and there are in all.
fn input_row(work: Work, line: u32) -> u32 {
    return (work.first_x + line) * p.x_stride;
}

fn input_run(work: Work) -> u32 {
    return work.head * p.runs;
}

fn input_runs() -> u32 {
    return p.x_runs;
}

fn store(work: Work, line: u32, column: u32, sum: f32) {
    let output = work.first + column;
    let row = work.head * p.outputs + output;
    if output < p.outputs && row >= p.first && row < p.first + p.rows {
        out[(work.first_x + line) * p.out_stride + row] = sum;
    }
}
