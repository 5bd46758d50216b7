// Body: 16 bytes of nibbles. Tail: the exponent, one byte. Half of 2^(e - 127); the two smallest are subnormal.
const PAIRED = true;
const SHIFTED = false;

fn quants(row: u32, run: u32) -> Quants {
    let block = run >> 1u;
    let e = (tail_word(row, block >> 2u) >> (8u * (block & 3u))) & 255u;
    let scale = bitcast<f32>(select((e - 1u) << 23u, 0x00200000u << e, e < 2u));
    let words = (weight[row + block] >> vec4<u32>(4u * (run & 1u))) & vec4<u32>(0x0f0f0f0fu);
    return looked_up(scale, words);
}
