// Body and tail as of Q4_0; the nibbles are codes of values_nl.
const PAIRED = true;
const SHIFTED = false;

fn codes(row: u32, run: u32) -> Quants {
    let words = (weight[row + (run >> 1u)] >> vec4<u32>(4u * (run & 1u))) & vec4<u32>(0x0f0f0f0fu);
    return Quants(words, tail_half(row, run >> 1u), 0.0);
}
