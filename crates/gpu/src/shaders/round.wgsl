// Rows of inputs in blocks of 32 signed bytes with a scale. A row is the bytes of all its runs of 16, then of each run the
// scale, and the scale times the sum of its bytes. Grid: (runs of 16 * 4 / 64, rows); an invocation rounds four elements.
struct P { runs: u32, x_stride: u32, out_stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

var<workgroup> sizes: array<u32, 64>;
var<workgroup> sums: array<i32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let word = id.x;
    var values = vec4<f32>(0.0);
    if word < p.runs * 4u {
        values = x[id.y * p.x_stride + word];
    }
    // As integers, magnitudes keep their order and what is no number is above infinity; as floats it may be lost.
    let size = bitcast<vec4<u32>>(values) & vec4<u32>(0x7fffffffu);
    sizes[lid] = max(max(size.x, size.y), max(size.z, size.w));
    workgroupBarrier();
    var bits = 0u;
    for (var i = 0u; i < 8u; i++) {
        bits = max(bits, sizes[(lid & ~7u) + i]);
    }
    let finite = bits < 0x7f800000u;
    let most = bitcast<f32>(select(0u, bits, finite));
    // What is too small for the inverse of a scale is nothing.
    let scale = select(0.0, most / 127.0, most > 1.0e-30);
    let inverse = select(0.0, 127.0 / most, most > 1.0e-30);
    let bytes = select(0u, pack4xI8(vec4<i32>(round(values * inverse))), finite);
    sums[lid] = dot4I8Packed(bytes, 0x01010101u);
    workgroupBarrier();
    if word >= p.runs * 4u {
        return;
    }
    let row = id.y * p.out_stride * 4u;
    out[row + word] = bytes;
    if (word & 3u) == 0u {
        let sum = sums[lid] + sums[lid + 1u] + sums[lid + 2u] + sums[lid + 3u];
        let at = row + p.runs * 4u + (word >> 2u) * 2u;
        // A block that is not finite has a scale that is no number, so that all of its products are none.
        let none = bits | 0x00400000u;
        out[at] = select(none, bitcast<u32>(scale), finite);
        out[at + 1u] = select(none, bitcast<u32>(scale * f32(sum)), finite);
    }
}
