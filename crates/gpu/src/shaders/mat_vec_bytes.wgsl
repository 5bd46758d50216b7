// The products with inputs rounded by round.wgsl: sums of bytes are whole numbers, and exact.
alias Input = vec4<u32>;

fn products(work: Work, lid: u32) -> array<f32, SUMS> {
    var sums: array<f32, SUMS>;
    for (var run = lid; run < p.runs; run += WG) {
        var w: array<Quants, ROWS>;
        for (var r = 0u; r < ROWS; r++) {
            w[r] = quants(matrix_row(work, r), run);
        }
        let own = input_run(work) + run;
        for (var t = 0u; t < T; t++) {
            let row = input_row(work, t);
            let q = x[row + own];
            let pairs = bitcast<vec4<f32>>(x[row + input_runs() + (own >> 1u)]);
            let factors = select(pairs.xy, pairs.zw, (own & 1u) == 1u);
            for (var r = 0u; r < ROWS; r++) {
                let sum = dot4I8Packed(w[r].bytes.x, q.x) + dot4I8Packed(w[r].bytes.y, q.y)
                    + dot4I8Packed(w[r].bytes.z, q.z) + dot4I8Packed(w[r].bytes.w, q.w);
                sums[r * T + t] += factors.x * w[r].scale * f32(sum) + factors.y * w[r].offset;
            }
        }
    }
    return sums;
}
