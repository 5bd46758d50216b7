// The products with inputs as they are, four to a vector.
alias Input = vec4<f32>;

fn products(work: Work, lid: u32) -> array<f32, SUMS> {
    var sums: array<f32, SUMS>;
    for (var run = lid; run < p.runs; run += WG) {
        var w: array<mat4x4<f32>, ROWS>;
        for (var r = 0u; r < ROWS; r++) {
            w[r] = decode(matrix_row(work, r), run);
        }
        for (var t = 0u; t < T; t++) {
            let at = input_row(work, t) + (input_run(work) + run) * 4u;
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
