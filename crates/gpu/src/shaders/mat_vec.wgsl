// Products of ROWS rows of a matrix with T rows of inputs that decode. Grid: rows / ROWS * batches, in x and y: all
// that read the same rows of the matrix come next to each other. From outside: T, ROWS, WG, ADD, `Input` and `products`
// (mat_vec_floats or mat_vec_bytes), and a `main` that sums up.
struct P {
    runs: u32,
    stride: u32,
    tails: u32,
    rows: u32,
    first: u32,
    x_stride: u32,
    out_stride: u32,
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

struct Work { first: u32, first_x: u32 }

fn assigned(group: vec3<u32>, groups: vec3<u32>) -> Work {
    let at = group.y * groups.x + group.x;
    return Work(at / p.batches * ROWS, step[0][p.count] + p.skipped + at % p.batches * T);
}

fn is_idle(work: Work) -> bool {
    return false;
}

fn matrix_row(work: Work, r: u32) -> u32 {
    return min(work.first + r, p.rows - 1u) * p.stride;
}

// Where row t of inputs begins, and how many runs of it come before those of the product, and there are in all.
fn input_row(work: Work, t: u32) -> u32 {
    return (work.first_x + t) * p.x_stride;
}

fn input_run(work: Work) -> u32 {
    return 0u;
}

fn input_runs() -> u32 {
    return p.runs;
}

fn store(work: Work, i: u32, sum: f32) {
    let row = work.first + i / T;
    if row < p.rows {
        let at = (work.first_x + i % T) * p.out_stride + p.first + row;
        if ADD {
            out[at] += sum;
        } else {
            out[at] = sum;
        }
    }
}
