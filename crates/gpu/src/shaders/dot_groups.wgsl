// out[t][g] = sum(x[t][g] * y[t][g]). Grid: (groups, rows). From outside: WG, `total`.
struct P { len: u32, stride: u32, out_stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, member: Member) {
    let first = group.y * p.stride + group.x * p.len;
    var sum = 0.0;
    for (var i = member.lid; i < p.len; i += WG) {
        sum += x[first + i] * y[first + i];
    }
    let all = total(sum, member);
    if member.lid == 0u {
        out[group.y * p.out_stride + group.x] = all;
    }
}
