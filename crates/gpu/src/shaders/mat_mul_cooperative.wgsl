// A tile of TALL rows of inputs by 64 rows of the matrix, RUNS * 16 columns at a time through workgroup memory as halves. The
// next columns are on their way from memory while these are multiplied. Each of PARTS subgroups sums DOWN by two cooperative
// matrices of BLOCK rows and columns; products of halves are exact, sums are floats. From outside: which rows these are and where
// sums go (mat_mul_all, mat_mul_experts or mat_mul_heads), `Quad` and `narrow` (mat_mul_f16), WG, TALL, DOWN, BLOCK, RUNS, and the
// matrices `Inputs`, `Weights` and `Sums` of that size. A line below `//# DOWN` stands DOWN times, with its number.
alias Input = Quad;
const SIDE = 64u;
// Quads of a row, and two that keep the banks of neighbouring rows apart: rows must begin at a multiple of 16 bytes.
const LINE = RUNS * 4u + 2u;
// Quads of a cooperative matrix's row.
const STEP = BLOCK / 4u;
const AREA = BLOCK * BLOCK;
// Parts side by side, and in all.
const ACROSS = SIDE / (2u * BLOCK);
const PARTS = ACROSS * (TALL / (DOWN * BLOCK));
// Runs of a stage on either side, and those of an invocation.
const WEIGHT_RUNS = SIDE * RUNS;
const INPUT_RUNS = TALL * RUNS;
const OWN_WEIGHTS = (WEIGHT_RUNS + WG - 1u) / WG;
const OWN_INPUTS = (INPUT_RUNS + WG - 1u) / WG;

// The matrix's rows, then the inputs'.
var<workgroup> tile: array<Quad, (SIDE + TALL) * LINE>;
// A matrix of sums for each part, on their way out.
var<workgroup> sums: array<f32, PARTS * AREA>;

// What an invocation has fetched of a stage.
struct Stage { weights: array<Packed, OWN_WEIGHTS>, inputs: array<array<Quad, 4>, OWN_INPUTS> }

// Fetches runs of the matrix and of inputs, from the first run of a stage on. Beyond the last run there is nothing.
fn fetch(work: Work, lid: u32, first: u32, stage: ptr<function, Stage>) {
    for (var i = 0u; i < OWN_WEIGHTS; i++) {
        let item = lid + i * WG;
        let run = first + item % RUNS;
        (*stage).weights[i] = Packed();
        if item < WEIGHT_RUNS && run < p.runs {
            (*stage).weights[i] = packed(matrix_row(work, item / RUNS), run);
        }
    }
    for (var i = 0u; i < OWN_INPUTS; i++) {
        let item = lid + i * WG;
        let run = first + item % RUNS;
        (*stage).inputs[i] = array<Quad, 4>();
        if item < INPUT_RUNS && run < p.runs {
            let at = input_row(work, min(item / RUNS, work.inputs - 1u)) + (input_run(work) + run) * 4u;
            (*stage).inputs[i] = array<Quad, 4>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
        }
    }
}

fn lay(to: u32, quads: array<Quad, 4>) {
    tile[to] = quads[0];
    tile[to + 1u] = quads[1];
    tile[to + 2u] = quads[2];
    tile[to + 3u] = quads[3];
}

// Stores the sums of a matrix of each part: the one that is `down` of its part's rows and `right` of its columns.
fn hand_out(work: Work, lid: u32, down: u32, right: u32) {
    for (var i = lid; i < PARTS * AREA; i += WG) {
        let part = i / AREA;
        let line = (part / ACROSS * DOWN + down) * BLOCK + i % AREA / BLOCK;
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
    let input = (SIDE + part / ACROSS * DOWN * BLOCK) * LINE;
    //# DOWN
    var a#: Sums; var b#: Sums;
    var stage: Stage;
    fetch(work, lid, 0u, &stage);
    for (var run = 0u; run < p.runs; run += RUNS) {
        workgroupBarrier();
        for (var i = 0u; i < OWN_WEIGHTS; i++) {
            let item = lid + i * WG;
            if item < WEIGHT_RUNS {
                lay(item / RUNS * LINE + item % RUNS * 4u, narrow(decoded(stage.weights[i])));
            }
        }
        for (var i = 0u; i < OWN_INPUTS; i++) {
            let item = lid + i * WG;
            if item < INPUT_RUNS {
                lay((SIDE + item / RUNS) * LINE + item % RUNS * 4u, stage.inputs[i]);
            }
        }
        workgroupBarrier();
        fetch(work, lid, run + RUNS, &stage);
        // Whole subgroups are beyond the last part.
        if part < PARTS {
            for (var k = 0u; k < RUNS * 4u; k += STEP) {
                // A row of inputs is one of its matrix, a row of weights a column.
                let left = coopLoad<Weights>(&tile[row + k], LINE);
                let right = coopLoad<Weights>(&tile[row + BLOCK * LINE + k], LINE);
                //# DOWN
                let x# = coopLoadT<Inputs>(&tile[input + #u * BLOCK * LINE + k], LINE); a# = coopMultiplyAdd(x#, left, a#); b# = coopMultiplyAdd(x#, right, b#);
            }
        }
    }
    //# DOWN
    if part < PARTS { coopStoreT(a#, &sums[part * AREA], BLOCK); } workgroupBarrier(); hand_out(work, lid, #u, 0u); workgroupBarrier(); if part < PARTS { coopStoreT(b#, &sums[part * AREA], BLOCK); } workgroupBarrier(); hand_out(work, lid, #u, 1u); workgroupBarrier();
}
