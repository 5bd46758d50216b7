// Body: 128 bytes, eight groups as of IQ4_NL. Tail: d, high bits of the scales, their low nibbles.
const PAIRED = true;
const SHIFTED = false;

fn codes(row: u32, run: u32) -> Quants {
    let block = run >> 4u;
    let group = (run & 15u) >> 1u;
    let head = tail_word(row, 2u * block);
    let low = (tail_word(row, 2u * block + 1u) >> (4u * group)) & 15u;
    let high = (head >> (16u + 2u * group)) & 3u;
    let scale = unpack2x16float(head).x * (f32(low | (high << 4u)) - 32.0);
    let words = (weight[row + block * 8u + group] >> vec4<u32>(4u * (run & 1u))) & vec4<u32>(0x0f0f0f0fu);
    return Quants(words, scale, 0.0);
}
