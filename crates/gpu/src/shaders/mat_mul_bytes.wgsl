// A tile of 64 rows of inputs by 64 rows of the matrix, all as packed bytes, a block of 32 columns at a time through
// workgroup memory; each of the 128 invocations sums 8 x 4. Inputs are rounded by round.wgsl; a block's sums of bytes are whole
// numbers, and exact. From outside: which rows these are and where sums go (mat_mul_all, mat_mul_experts or mat_mul_heads).
alias Input = vec4<u32>;
const SIDE = 64u;
const TALL = SIDE;
const LINES = 2u * SIDE;

// 32 columns of a row: the bytes of both halves, and of each half its scale and, of weights, the offset, of inputs what
// offsets are multiplied with.
struct Block { low: vec4<u32>, high: vec4<u32>, factors: vec4<f32> }

// The matrix's rows, then the inputs'; all first halves, then all second ones.
var<workgroup> bytes: array<vec4<u32>, 2 * LINES>;
var<workgroup> factors: array<vec4<f32>, LINES>;

fn weights(row: u32, run: u32) -> Block {
    let low = quants(row, run);
    let high = quants(row, run + 1u);
    return Block(low.bytes, high.bytes, vec4<f32>(low.scale, low.offset, high.scale, high.offset));
}

fn inputs(row: u32, run: u32) -> Block {
    return Block(x[row + run], x[row + run + 1u], bitcast<vec4<f32>>(x[row + input_runs() + (run >> 1u)]));
}

// Halves of four rows.
struct Four { a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32> }

fn four(at: u32) -> Four {
    return Four(bytes[at], bytes[at + 16u], bytes[at + 32u], bytes[at + 48u]);
}

fn sums_of(w: Four, y: vec4<u32>) -> vec4<i32> {
    return vec4<i32>(sum_of(w.a, y), sum_of(w.b, y), sum_of(w.c, y), sum_of(w.d, y));
}

fn sum_of(w: vec4<u32>, y: vec4<u32>) -> i32 {
    return dot4I8Packed(w.x, y.x) + dot4I8Packed(w.y, y.y) + dot4I8Packed(w.z, y.z) + dot4I8Packed(w.w, y.w);
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let work = assigned(group);
    if work.inputs == 0u {
        return;
    }
    // The first half of the invocations loads weights, the second inputs: a block each.
    let line = lid & 63u;
    let row = matrix_row(work, line);
    let input = input_row(work, min(line, work.inputs - 1u));
    let own = input_run(work);
    // Rows of the matrix are i, i + 16 .., of the inputs j, j + 8 ..
    let i = lid & 15u;
    let j = lid >> 4u;
    var sums: array<vec4<f32>, 8>;
    var next: Block;
    if lid < SIDE {
        next = weights(row, 0u);
    } else {
        next = inputs(input, own);
    }
    for (var run = 0u; run < p.runs; run += 2u) {
        workgroupBarrier();
        bytes[lid] = next.low;
        bytes[LINES + lid] = next.high;
        factors[lid] = next.factors;
        workgroupBarrier();
        // The next block is on its way while this one is multiplied.
        if run + 2u < p.runs {
            if lid < SIDE {
                next = weights(row, run + 2u);
            } else {
                next = inputs(input, own + run + 2u);
            }
        }
        let low = four(i);
        let high = four(LINES + i);
        // Scales and offsets of the first halves, then of the second ones.
        let terms = transpose(mat4x4<f32>(factors[i], factors[i + 16u], factors[i + 32u], factors[i + 48u]));
        for (var t = 0u; t < 8u; t++) {
            let at = SIDE + j + 8u * t;
            let of_low = sums_of(low, bytes[at]);
            let of_high = sums_of(high, bytes[LINES + at]);
            let f = factors[at];
            if PAIRED {
                sums[t] += f.x * terms[0] * vec4<f32>(of_low + of_high);
            } else {
                sums[t] += f.x * (terms[0] * vec4<f32>(of_low) + terms[2] * vec4<f32>(of_high));
            }
            if SHIFTED && PAIRED {
                sums[t] += (f.y + f.w) * terms[1];
            } else if SHIFTED {
                sums[t] += f.y * terms[1] + f.w * terms[3];
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
