// Leaves rows rounded to blocks of 32 signed bytes with a scale. A row is the bytes of all its runs of 16, then of each run
// the scale, and the scale times the sum of its bytes. From outside: WG, a multiple of 8.
@group(0) @binding(9) var<storage, read_write> rounded: array<u32>;

var<workgroup> sizes: array<u32, WG>;
var<workgroup> sums: array<i32, WG>;

// Rounds the four numbers of `word` of a row of `quads`, those of 8 invocations with one scale. All invocations come here; who
// has no numbers has zeros, and a word behind the last.
fn round_four(values: vec4<f32>, word: u32, row: u32, quads: u32, lid: u32) {
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
    if word >= quads {
        return;
    }
    let runs = quads / 4u;
    let first = row * (runs + (runs + 1u) / 2u) * 4u;
    rounded[first + word] = bytes;
    if (word & 3u) == 0u {
        let sum = sums[lid] + sums[lid + 1u] + sums[lid + 2u] + sums[lid + 3u];
        let at = first + quads + (word >> 2u) * 2u;
        // A block that is not finite has a scale that is no number, so that all of its products are none.
        let none = bits | 0x00400000u;
        rounded[at] = select(none, bitcast<u32>(scale), finite);
        rounded[at + 1u] = select(none, bitcast<u32>(scale * f32(sum)), finite);
    }
}
