// A tile of 64 rows of inputs by 64 rows of the matrix, 32 columns at a time through workgroup memory as halves. Each of PARTS
// subgroups sums two by two cooperative matrices of BLOCK rows and columns; products of halves are exact, sums are floats.
// From outside: which rows these are and where sums go (mat_mul_all, mat_mul_experts or mat_mul_heads), `Quad` and `narrow`
// (mat_mul_f16), WG, BLOCK, and the matrices `Inputs`, `Weights` and `Sums` of that size.
alias Input = vec4<f32>;
const SIDE = 64u;
// Runs of 16 columns at a time.
const RUNS = 2u;
// Quads of a row, and two that keep the banks of neighbouring rows apart: rows must begin at a multiple of 16 bytes.
const LINE = RUNS * 4u + 2u;
// Quads of a cooperative matrix's row.
const STEP = BLOCK / 4u;
const AREA = BLOCK * BLOCK;
// Parts side by side, and in all.
const ACROSS = SIDE / (2u * BLOCK);
const PARTS = ACROSS * ACROSS;

// The matrix's rows, then the inputs'.
var<workgroup> tile: array<Quad, 2 * SIDE * LINE>;
// A matrix of sums for each part, on their way out.
var<workgroup> sums: array<f32, PARTS * AREA>;

// A run of a row of the matrix, or of inputs, from the first run of the stage on.
fn fetch(work: Work, item: u32, first: u32) -> mat4x4<f32> {
    let run = first + item % RUNS;
    let line = item / RUNS % SIDE;
    // Beyond the last run there is nothing, on either side.
    if run >= p.runs {
        return mat4x4<f32>();
    }
    if item < SIDE * RUNS {
        return decode(matrix_row(work, line), run);
    }
    let at = input_row(work, min(line, work.inputs - 1u)) + (input_run(work) + run) * 4u;
    return mat4x4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
}

// Stores the sums of a matrix of each part: the one that is `down` of its part's rows and `right` of its columns.
fn hand_out(work: Work, lid: u32, down: u32, right: u32) {
    for (var i = lid; i < PARTS * AREA; i += WG) {
        let part = i / AREA;
        let line = (part / ACROSS * 2u + down) * BLOCK + i % AREA / BLOCK;
        let column = (part % ACROSS * 2u + right) * BLOCK + i % BLOCK;
        if line < work.inputs {
            store(work, line, column, sums[i]);
        }
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(subgroup_id) part: u32,
) {
    let work = assigned(group);
    if work.inputs == 0u {
        return;
    }
    // Where the part's rows of the matrix and of the inputs begin.
    let row = part % ACROSS * 2u * BLOCK * LINE;
    let input = (SIDE + part / ACROSS * 2u * BLOCK) * LINE;
    var a: Sums;
    var b: Sums;
    var c: Sums;
    var d: Sums;
    for (var run = 0u; run < p.runs; run += RUNS) {
        workgroupBarrier();
        for (var item = lid; item < 2u * SIDE * RUNS; item += WG) {
            let quads = narrow(fetch(work, item, run));
            let to = item / RUNS * LINE + item % RUNS * 4u;
            tile[to] = quads[0];
            tile[to + 1u] = quads[1];
            tile[to + 2u] = quads[2];
            tile[to + 3u] = quads[3];
        }
        workgroupBarrier();
        // Whole subgroups are beyond the last part.
        if part < PARTS {
            for (var k = 0u; k < RUNS * 4u; k += STEP) {
                // A row of inputs is one of its matrix, a row of weights a column.
                let upper = coopLoadT<Inputs>(&tile[input + k], LINE);
                let lower = coopLoadT<Inputs>(&tile[input + BLOCK * LINE + k], LINE);
                let left = coopLoad<Weights>(&tile[row + k], LINE);
                let right = coopLoad<Weights>(&tile[row + BLOCK * LINE + k], LINE);
                a = coopMultiplyAdd(upper, left, a);
                b = coopMultiplyAdd(upper, right, b);
                c = coopMultiplyAdd(lower, left, c);
                d = coopMultiplyAdd(lower, right, d);
            }
        }
    }
    if part < PARTS {
        coopStoreT(a, &sums[part * AREA], BLOCK);
    }
    workgroupBarrier();
    hand_out(work, lid, 0u, 0u);
    workgroupBarrier();
    if part < PARTS {
        coopStoreT(b, &sums[part * AREA], BLOCK);
    }
    workgroupBarrier();
    hand_out(work, lid, 0u, 1u);
    workgroupBarrier();
    if part < PARTS {
        coopStoreT(c, &sums[part * AREA], BLOCK);
    }
    workgroupBarrier();
    hand_out(work, lid, 1u, 0u);
    workgroupBarrier();
    if part < PARTS {
        coopStoreT(d, &sums[part * AREA], BLOCK);
    }
    workgroupBarrier();
    hand_out(work, lid, 1u, 1u);
}
