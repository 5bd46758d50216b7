// RMS norm of a row. Grid: rows. From outside: WG, `total`.
struct P { width: u32, stride: u32, eps: f32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> w: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, member: Member) {
    let lid = member.lid;
    let row = group.x * p.stride;
    var squares = 0.0;
    for (var i = lid; i < p.width; i += WG) {
        squares += x[row + i] * x[row + i];
    }
    let factor = 1.0 / sqrt(total(squares, member) / f32(p.width) + p.eps);
    for (var i = lid; i < p.width; i += WG) {
        out[row + i] = x[row + i] * factor * w[i];
    }
}
