// Brings the spans of attention together, in their order. Grid: (heads, rows).
// From outside: WG, SPLITS (the most of them), `highest` and `total` (reduce_plain or reduce_subgroup),
// `round_out` (rounds_out, or nothing).
struct P {
    heads: u32,
    value_dim: u32,
    splits: u32,
    out_stride: u32,
    first_row: u32, // of those of its kind
    decoding: u32, // whether it is of rows that decode
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> parts: array<f32>;
@group(0) @binding(2) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

var<workgroup> factors: array<f32, SPLITS + 3>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, member: Member) {
    let lid = member.lid;
    let size = p.value_dim + 2u;
    let splits = p.splits;
    let first = (group.y * p.heads + group.x) * splits * size;
    var own = -3.0e38;
    for (var s = lid; s < splits; s += WG) {
        own = max(own, parts[first + s * size + p.value_dim]);
    }
    let top = highest(own, member);
    var weight = 0.0;
    // Filled up to whole fours.
    for (var s = lid; s < splits + 3u; s += WG) {
        let at = first + min(s, splits - 1u) * size + p.value_dim;
        let factor = select(0.0, exp(parts[at] - top), s < splits);
        factors[s] = factor;
        weight += factor * parts[at + 1u];
    }
    // Its barriers come between the factors' writers and readers.
    // Divided as where there is one span, which is not merged.
    let inverse = 1.0 / total(weight, member);
    let row = select(0u, step[0].x, p.decoding == 1u) + p.first_row + group.y;
    for (var d = lid; d < p.value_dim; d += WG) {
        var value = 0.0;
        for (var s = 0u; s < splits; s += 4u) {
            var four: array<f32, 4>;
            for (var k = 0u; k < 4u; k++) {
                four[k] = parts[first + min(s + k, splits - 1u) * size + d];
            }
            for (var k = 0u; k < 4u; k++) {
                value += factors[s + k] * four[k];
            }
        }
        out[row * p.out_stride + group.x * p.value_dim + d] = value * inverse;
    }
    round_out(row, p.out_stride, group.x * p.value_dim, p.value_dim, lid);
}
