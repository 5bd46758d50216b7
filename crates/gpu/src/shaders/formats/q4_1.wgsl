// Body as of Q4_0. Tail: d, m.
const PAIRED = true;
const SHIFTED = true;

fn quants(row: u32, run: u32) -> Quants {
    let words = (weight[row + (run >> 1u)] >> vec4<u32>(4u * (run & 1u))) & vec4<u32>(0x0f0f0f0fu);
    let scale = unpack2x16float(tail_word(row, run >> 1u));
    return Quants(words, scale.x, scale.y);
}
