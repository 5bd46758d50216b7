// A norm of each run of a row, in place. Grid: (runs, rows). From outside: WG, `total`, LAYER (whether the mean is taken
// away), MEAN (whether the squares' mean counts or their sum), and `scaled`, which
// multiplies by weights and adds a bias where there are any.
struct P { run: u32, stride: u32, eps: f32, weight_len: u32, bias_len: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, member: Member) {
    let lid = member.lid;
    let first = group.x * p.run;
    let row = group.y * p.stride + first;
    // The mean in two steps: what is left without the first is exact where the mean is large.
    var mean = 0.0;
    var rest = 0.0;
    if LAYER {
        var sum = 0.0;
        for (var i = lid; i < p.run; i += WG) {
            sum += x[row + i];
        }
        mean = total(sum, member) / f32(p.run);
        sum = 0.0;
        for (var i = lid; i < p.run; i += WG) {
            sum += x[row + i] - mean;
        }
        rest = total(sum, member) / f32(p.run);
    }
    var squares = 0.0;
    for (var i = lid; i < p.run; i += WG) {
        let value = (x[row + i] - mean) - rest;
        squares += value * value;
    }
    var square = total(squares, member);
    if MEAN {
        square /= f32(p.run);
    }
    let factor = 1.0 / sqrt(square + p.eps);
    for (var i = lid; i < p.run; i += WG) {
        x[row + i] = scaled(((x[row + i] - mean) - rest) * factor, first + i);
    }
}
