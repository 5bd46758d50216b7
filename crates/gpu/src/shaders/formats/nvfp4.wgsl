// Body: four groups of 8 bytes of nibbles, low ones first. Tail: a scale for each group.
const PAIRED = false;
const SHIFTED = false;

fn quants(row: u32, run: u32) -> Quants {
    let block = run >> 2u;
    let group = run & 3u;
    let e4m3 = (tail_word(row, block) >> (8u * group)) & 127u;
    let four = weight[row + (run >> 1u)];
    let pair = select(four.xy, four.zw, (group & 1u) == 1u);
    let low = pair & vec2<u32>(0x0f0f0f0fu);
    let high = (pair >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu);
    return looked_up(half_of(e4m3), vec4<u32>(low, high));
}

// Half of an E4M3 number without its sign; the one that is none is 0. Subnormal ones are multiples of 2^-10.
fn half_of(e4m3: u32) -> f32 {
    let normal = bitcast<f32>((e4m3 << 20u) + 0x3b800000u);
    let small = select(normal, f32(e4m3) * 0.0009765625, e4m3 < 8u);
    return select(small, 0.0, e4m3 == 127u);
}
