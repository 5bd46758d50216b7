// Brings the splits of attention together. Grid: (heads, rows).
struct P { heads: u32, value_dim: u32, splits: u32, out_stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> parts: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let size = p.value_dim + 2u;
    let first = (group.y * p.heads + group.x) * p.splits * size;
    var top = parts[first + p.value_dim];
    for (var s = 1u; s < p.splits; s++) {
        top = max(top, parts[first + s * size + p.value_dim]);
    }
    for (var d = lid; d < p.value_dim; d += 64u) {
        var value = 0.0;
        var sum = 0.0;
        for (var s = 0u; s < p.splits; s++) {
            let at = first + s * size;
            let factor = exp(parts[at + p.value_dim] - top);
            value += factor * parts[at + d];
            sum += factor * parts[at + p.value_dim + 1u];
        }
        out[group.y * p.out_stride + group.x * p.value_dim + d] = value / sum;
    }
}
