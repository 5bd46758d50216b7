// RMS norm of each head of a row, in place. Grid: (heads, rows). From outside: WG, `total`.
struct P { width: u32, stride: u32, eps: f32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> w: array<f32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, member: Member) {
    let lid = member.lid;
    let head = group.y * p.stride + group.x * p.width;
    var squares = 0.0;
    for (var i = lid; i < p.width; i += WG) {
        squares += x[head + i] * x[head + i];
    }
    let factor = 1.0 / sqrt(total(squares, member) / f32(p.width) + p.eps);
    for (var i = lid; i < p.width; i += WG) {
        x[head + i] = x[head + i] * factor * w[i];
    }
}
