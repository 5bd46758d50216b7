// Body: 16 bytes of nibbles, the first half of the block low. Tail: d.
fn decode(row: u32, run: u32) -> mat4x4<f32> {
    let words = (weight[row + (run >> 1u)] >> vec4<u32>(4u * (run & 1u))) & vec4<u32>(0x0f0f0f0fu);
    return shifted(tail_half(row, run >> 1u), unsigned(words), -8.0);
}
