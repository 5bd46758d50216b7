// RMS norm of a row, whose end is filled up with zeros. Grid: rows. From outside: WG,
// `total`, `round_four` (rounds, or nothing).
struct P { width: u32, stride: u32, eps: f32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> w: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

// Quads that an invocation fetches at once: with a row per workgroup, waiting for one after the other is all that takes time.
const TOGETHER = 4u;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, member: Member) {
    let lid = member.lid;
    let stride = p.stride;
    let row = group.x * stride;
    var squares = vec4<f32>(0.0);
    for (var first = lid; first < stride; first += TOGETHER * WG) {
        var quads: array<vec4<f32>, TOGETHER>;
        for (var k = 0u; k < TOGETHER; k++) {
            quads[k] = x[row + min(first + k * WG, stride - 1u)];
        }
        for (var k = 0u; k < TOGETHER; k++) {
            let counts = first + k * WG < stride;
            squares += select(vec4<f32>(0.0), quads[k] * quads[k], counts);
        }
    }
    let sum = dot(squares, vec4<f32>(1.0));
    let factor = 1.0 / sqrt(total(sum, member) / f32(p.width) + p.eps);
    for (var first = 0u; first < stride; first += WG) {
        let i = first + lid;
        var normed = vec4<f32>(0.0);
        if i < stride {
            normed = x[row + i] * factor * w[i];
            out[row + i] = normed;
        }
        round_four(normed, i, group.x, stride, lid);
    }
}
