// Brings the splits of attention together. Grid: (heads, rows).
// From outside: WG, SPLITS (the most of them), `highest` and `total` (reduce_plain or reduce_subgroup).
struct P { heads: u32, value_dim: u32, splits: u32, out_stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> parts: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

var<workgroup> factors: array<f32, SPLITS>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, member: Member) {
    let lid = member.lid;
    let size = p.value_dim + 2u;
    let first = (group.y * p.heads + group.x) * p.splits * size;
    var own = -3.0e38;
    for (var s = lid; s < p.splits; s += WG) {
        own = max(own, parts[first + s * size + p.value_dim]);
    }
    let top = highest(own, member);
    var weight = 0.0;
    for (var s = lid; s < p.splits; s += WG) {
        let at = first + s * size + p.value_dim;
        let factor = exp(parts[at] - top);
        factors[s] = factor;
        weight += factor * parts[at + 1u];
    }
    // Its barriers come between the factors' writers and readers.
    let sum = total(weight, member);
    for (var d = lid; d < p.value_dim; d += WG) {
        var value = 0.0;
        for (var s = 0u; s < p.splits; s++) {
            value += factors[s] * parts[first + s * size + d];
        }
        out[group.y * p.out_stride + group.x * p.value_dim + d] = value / sum;
    }
}
