// A norm of each run of a row, in place. Grid: (runs, rows). From outside: WG, `total`, LAYER (whether the mean is taken
// away), MEAN (whether the squares' mean counts or their sum), and `scaled`, which
// multiplies by weights and adds a bias where there are any: as many as a run has, or as a row.
struct P { run: u32, stride: u32, eps: f32, weight_len: u32, bias_len: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;

// Numbers that an invocation fetches at once: with a run per workgroup, waiting for one after the other is all that takes time.
const TOGETHER = 4u;

fn fetch(row: u32, first: u32) -> array<f32, TOGETHER> {
    var values: array<f32, TOGETHER>;
    for (var k = 0u; k < TOGETHER; k++) {
        values[k] = x[row + min(first + k * WG, p.run - 1u)];
    }
    return values;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, member: Member) {
    let lid = member.lid;
    let run = group.x * p.run;
    let row = group.y * p.stride + run;
    // The mean in two steps: what is left without the first is exact where the mean is large.
    var mean = 0.0;
    var rest = 0.0;
    if LAYER {
        var sum = 0.0;
        for (var first = lid; first < p.run; first += TOGETHER * WG) {
            let values = fetch(row, first);
            for (var k = 0u; k < TOGETHER; k++) {
                sum += select(0.0, values[k], first + k * WG < p.run);
            }
        }
        mean = total(sum, member) / f32(p.run);
        sum = 0.0;
        for (var first = lid; first < p.run; first += TOGETHER * WG) {
            let values = fetch(row, first);
            for (var k = 0u; k < TOGETHER; k++) {
                sum += select(0.0, values[k] - mean, first + k * WG < p.run);
            }
        }
        rest = total(sum, member) / f32(p.run);
    }
    var squares = 0.0;
    for (var first = lid; first < p.run; first += TOGETHER * WG) {
        let values = fetch(row, first);
        for (var k = 0u; k < TOGETHER; k++) {
            let value = (values[k] - mean) - rest;
            squares += select(0.0, value * value, first + k * WG < p.run);
        }
    }
    var square = total(squares, member);
    if MEAN {
        square /= f32(p.run);
    }
    let factor = 1.0 / sqrt(square + p.eps);
    for (var first = lid; first < p.run; first += TOGETHER * WG) {
        let values = fetch(row, first);
        var normed: array<f32, TOGETHER>;
        for (var k = 0u; k < TOGETHER; k++) {
            normed[k] = scaled(((values[k] - mean) - rest) * factor, run, min(first + k * WG, p.run - 1u));
        }
        for (var k = 0u; k < TOGETHER; k++) {
            if first + k * WG < p.run {
                x[row + first + k * WG] = normed[k];
            }
        }
    }
}
