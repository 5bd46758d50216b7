// All rows of inputs with all of a matrix. Grid: (rows of the matrix / 64, rows of inputs / TALL). From
// outside: ADD.
struct P { runs: u32, stride: u32, tails: u32, rows: u32, first: u32, x_stride: u32, out_stride: u32, count: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> x: array<Input>;
@group(0) @binding(3) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

struct Work { first: u32, first_x: u32, inputs: u32 }

fn assigned(group: vec3<u32>) -> Work {
    return Work(group.x * SIDE, group.y * TALL, min(step[0][p.count] - group.y * TALL, TALL));
}

fn matrix_row(work: Work, line: u32) -> u32 {
    return min(work.first + line, p.rows - 1u) * p.stride;
}

// Where a row of inputs begins, and how many runs of it come before those of the product, and there are in all.
fn input_row(work: Work, line: u32) -> u32 {
    return (work.first_x + line) * p.x_stride;
}

fn input_run(work: Work) -> u32 {
    return 0u;
}

fn input_runs() -> u32 {
    return p.runs;
}

fn store(work: Work, line: u32, column: u32, sum: f32) {
    let w_row = work.first + column;
    if w_row < p.rows {
        let at = (work.first_x + line) * p.out_stride + p.first + w_row;
        if ADD {
            out[at] += sum;
        } else {
            out[at] = sum;
        }
    }
}
