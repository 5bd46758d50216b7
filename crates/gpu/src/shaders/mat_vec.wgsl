// Products of ROWS rows of a matrix with T rows of inputs. Grid: rows / ROWS, in x and y.
// From outside: T, ROWS, WG, ADD, and a `reduce`.
struct P { runs: u32, stride: u32, tails: u32, rows: u32, first: u32, x_stride: u32, out_stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

const SUMS = ROWS * T;

fn products(first: u32, lid: u32) -> array<f32, SUMS> {
    var sums: array<f32, SUMS>;
    for (var run = lid; run < p.runs; run += WG) {
        var w: array<mat4x4<f32>, ROWS>;
        for (var r = 0u; r < ROWS; r++) {
            w[r] = decode(min(first + r, p.rows - 1u) * p.stride, run);
        }
        for (var t = 0u; t < T; t++) {
            let at = t * p.x_stride + run * 4u;
            let a = x[at];
            let b = x[at + 1u];
            let c = x[at + 2u];
            let d = x[at + 3u];
            for (var r = 0u; r < ROWS; r++) {
                sums[r * T + t] += dot(w[r][0], a) + dot(w[r][1], b) + dot(w[r][2], c) + dot(w[r][3], d);
            }
        }
    }
    return sums;
}

fn store(first: u32, i: u32, sum: f32) {
    let row = first + i / T;
    if row < p.rows {
        let at = (i % T) * p.out_stride + p.first + row;
        if ADD {
            out[at] += sum;
        } else {
            out[at] = sum;
        }
    }
}
