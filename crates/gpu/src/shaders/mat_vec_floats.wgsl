// The products with inputs as they are, four to a vector. Weights are scaled after they are multiplied, whatever T is:
// a row of inputs has the same sums beside any others. With one or two rows they stay packed until then, so that few
// numbers lie in registers at a time; for more they are unpacked once.
alias Input = vec4<f32>;

fn products(work: Work, lid: u32) -> array<f32, SUMS> {
    var sums: array<f32, SUMS>;
    // Asked for once: devices read constants of a dispatch anew in each round of a loop.
    let runs = p.runs;
    var rows: array<u32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        rows[r] = matrix_row(work, r);
    }
    for (var run = lid; run < runs; run += WG) {
        var w: array<Packed, ROWS>;
        for (var r = 0u; r < ROWS; r++) {
            w[r] = packed(rows[r], run);
        }
        if T <= 2u {
            for (var t = 0u; t < T; t++) {
                let x = inputs(work, t, run);
                let all = dot(x[0] + x[1] + x[2] + x[3], vec4<f32>(1.0));
                for (var r = 0u; r < ROWS; r++) {
                    sums[r * T + t] += scaled(w[r], product(values(w[r]), x), all);
                }
            }
        } else {
            var v: array<mat4x4<f32>, ROWS>;
            for (var r = 0u; r < ROWS; r++) {
                v[r] = values(w[r]);
            }
            for (var t = 0u; t < T; t++) {
                let x = inputs(work, t, run);
                let all = dot(x[0] + x[1] + x[2] + x[3], vec4<f32>(1.0));
                for (var r = 0u; r < ROWS; r++) {
                    sums[r * T + t] += scaled(w[r], product(v[r], x), all);
                }
            }
        }
    }
    return sums;
}

fn inputs(work: Work, t: u32, run: u32) -> mat4x4<f32> {
    let at = input_row(work, t) + (input_run(work) + run) * 4u;
    return mat4x4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
}

fn product(w: mat4x4<f32>, x: mat4x4<f32>) -> f32 {
    return dot(w[0], x[0]) + dot(w[1], x[1]) + dot(w[2], x[2]) + dot(w[3], x[3]);
}
