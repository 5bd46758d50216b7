// A tile of 64 rows of inputs by 64 rows of the matrix, a run of 16 columns at a time through workgroup memory; each of
// the 128 invocations sums 8 x 4. From outside: which rows these are and where sums go (mat_mul_all, mat_mul_experts or
// mat_mul_heads), and `Quad`, `narrow` and `wide` (mat_mul_f32 or mat_mul_f16).
alias Input = vec4<f32>;
const SIDE = 64u;
const TALL = SIDE;
// Quads of a row, and one that keeps the banks of neighbouring rows apart.
const LINE = 5u;

// The matrix's rows, then the inputs'.
var<workgroup> tile: array<Quad, 2 * SIDE * LINE>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let work = assigned(group);
    if work.inputs == 0u {
        return;
    }
    // The first half of the invocations loads weights, the second inputs: a run each.
    let line = lid & 63u;
    let row = matrix_row(work, line);
    let input = input_row(work, min(line, work.inputs - 1u)) + input_run(work) * 4u;
    // Rows of the matrix are i, i + 16 .., of the inputs j, j + 8 ..
    let i = lid & 15u;
    let j = lid >> 4u;
    var sums: array<vec4<f32>, 8>;
    for (var run = 0u; run < p.runs; run++) {
        var values: mat4x4<f32>;
        if lid < SIDE {
            values = decode(row, run);
        } else {
            let at = input + run * 4u;
            values = mat4x4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
        }
        let quads = narrow(values);
        workgroupBarrier();
        let to = lid * LINE;
        tile[to] = quads[0];
        tile[to + 1u] = quads[1];
        tile[to + 2u] = quads[2];
        tile[to + 3u] = quads[3];
        workgroupBarrier();
        for (var c = 0u; c < 4u; c++) {
            let w = mat4x4<f32>(
                wide(tile[i * LINE + c]),
                wide(tile[(i + 16u) * LINE + c]),
                wide(tile[(i + 32u) * LINE + c]),
                wide(tile[(i + 48u) * LINE + c]),
            );
            for (var t = 0u; t < 8u; t++) {
                // The products of all four rows with one input.
                sums[t] += wide(tile[(SIDE + j + 8u * t) * LINE + c]) * w;
            }
        }
    }
    for (var t = 0u; t < 8u; t++) {
        for (var r = 0u; r < 4u; r++) {
            let x_row = j + 8u * t;
            if x_row < work.inputs {
                store(work, x_row, i + 16u * r, sums[t][r]);
            }
        }
    }
}
