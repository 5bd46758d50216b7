// Body: 16 bytes of nibbles, the first half of the block low. Tail: d.
const PAIRED = true;
const SHIFTED = true;

fn quants(row: u32, run: u32) -> Quants {
    let words = (weight[row + (run >> 1u)] >> vec4<u32>(4u * (run & 1u))) & vec4<u32>(0x0f0f0f0fu);
    let d = tail_half(row, run >> 1u);
    return Quants(words, d, -8.0 * d);
}
