// The products with inputs rounded by round.wgsl: sums of bytes are whole numbers, and exact.
alias Input = vec4<u32>;

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
        let given = input_run(work) + run;
        for (var t = 0u; t < T; t++) {
            let row = input_row(work, t);
            let q = x[row + given];
            let pairs = bitcast<vec4<f32>>(x[row + input_runs() + (given >> 1u)]);
            let factors = select(pairs.xy, pairs.zw, (given & 1u) == 1u);
            for (var r = 0u; r < ROWS; r++) {
                let own = opened(w[r]);
                let sum = dot4I8Packed(own.bytes.x, q.x) + dot4I8Packed(own.bytes.y, q.y)
                    + dot4I8Packed(own.bytes.z, q.z) + dot4I8Packed(own.bytes.w, q.w);
                sums[r * T + t] += factors.x * own.scale * f32(sum) + factors.y * own.offset;
            }
        }
    }
    return sums;
}
