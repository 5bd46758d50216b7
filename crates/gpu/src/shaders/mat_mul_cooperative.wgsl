// A tile of TALL rows of inputs by 64 rows of the matrix, RUNS * 16 columns at a time through workgroup memory as halves. The
// next columns are on their way from memory while these are multiplied. Each of PARTS subgroups sums DOWN by two cooperative
// matrices of BLOCK rows and columns; products of halves are exact, sums are floats. From outside: which rows these are and where
// sums go (mat_mul_all, mat_mul_experts or mat_mul_heads), `Quad` and `narrow` (mat_mul_f16), WG, TALL, DOWN, BLOCK, RUNS, and the
// matrices `Inputs`, `Weights` and `Sums` of that size. A line below `//# NAME` stands as often as the name says, with its number:
// DOWN times, and once for each run of the matrix (OWN_WEIGHTS) and of inputs (OWN_INPUTS) that an invocation has of a stage.
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
// Runs of a stage on either side.
const WEIGHT_RUNS = SIDE * RUNS;
const INPUT_RUNS = TALL * RUNS;

// The matrix's rows, then the inputs'.
var<workgroup> tile: array<Quad, (SIDE + TALL) * LINE>;
// A matrix of sums for each part, on their way out.
var<workgroup> sums: array<f32, PARTS * AREA>;

// A run of the matrix, by its number among those of a stage. Beyond the last run there is nothing.
fn fetch_weights(work: Work, item: u32, first: u32) -> Packed {
    let run = first + item % RUNS;
    if item < WEIGHT_RUNS && run < p.runs {
        return packed(matrix_row(work, item / RUNS), run);
    }
    return Packed();
}

fn fetch_inputs(work: Work, item: u32, first: u32) -> array<Quad, 4> {
    let run = first + item % RUNS;
    if item < INPUT_RUNS && run < p.runs {
        let at = input_row(work, min(item / RUNS, work.inputs - 1u)) + (input_run(work) + run) * 4u;
        return array<Quad, 4>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
    }
    return array<Quad, 4>();
}

fn lay_weights(item: u32, run: Packed) {
    if item < WEIGHT_RUNS {
        lay(item / RUNS * LINE + item % RUNS * 4u, narrow(decoded(run)));
    }
}

fn lay_inputs(item: u32, run: array<Quad, 4>) {
    if item < INPUT_RUNS {
        lay((SIDE + item / RUNS) * LINE + item % RUNS * 4u, run);
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
    //# OWN_WEIGHTS
    var w# = fetch_weights(work, lid + #u * WG, 0u);
    //# OWN_INPUTS
    var x# = fetch_inputs(work, lid + #u * WG, 0u);
    for (var run = 0u; run < p.runs; run += RUNS) {
        workgroupBarrier();
        //# OWN_WEIGHTS
        lay_weights(lid + #u * WG, w#);
        //# OWN_INPUTS
        lay_inputs(lid + #u * WG, x#);
        workgroupBarrier();
        //# OWN_WEIGHTS
        w# = fetch_weights(work, lid + #u * WG, run + RUNS);
        //# OWN_INPUTS
        x# = fetch_inputs(work, lid + #u * WG, run + RUNS);
        // Whole subgroups are beyond the last part.
        if part < PARTS {
            for (var k = 0u; k < RUNS * 4u; k += STEP) {
                // A row of inputs is one of its matrix, a row of weights a column.
                let left = coopLoad<Weights>(&tile[row + k], LINE);
                let right = coopLoad<Weights>(&tile[row + BLOCK * LINE + k], LINE);
                //# DOWN
                let given# = coopLoadT<Inputs>(&tile[input + #u * BLOCK * LINE + k], LINE); a# = coopMultiplyAdd(given#, left, a#); b# = coopMultiplyAdd(given#, right, b#);
            }
        }
    }
    //# DOWN
    if part < PARTS { coopStoreT(a#, &sums[part * AREA], BLOCK); } workgroupBarrier(); hand_out(work, lid, #u, 0u); workgroupBarrier(); if part < PARTS { coopStoreT(b#, &sums[part * AREA], BLOCK); } workgroupBarrier(); hand_out(work, lid, #u, 1u); workgroupBarrier();
}
