// Body: 64 bytes of points, 32 of signs. Tail: d, 8 bytes of the points' upper bits, 8 scales of 4 bits.
const PAIRED = true;
const SHIFTED = false;

fn quants(row: u32, run: u32) -> Quants {
    let group = run & 15u;
    let at = row + (run >> 4u) * 6u;
    let tail = 7u * (run >> 4u);
    let low = unpack4xU8(weight[at + (group >> 2u)][group & 3u]);
    let high = tail_bits(row, tail + 1u + (group >> 2u)) >> (4u * (group & 3u));
    let signs = weight[at + 4u + (group >> 3u)][(group >> 1u) & 3u] >> (16u * (group & 1u));
    let nibble = (tail_bits(row, tail + 5u + (group >> 3u)) >> (2u * (group & 6u))) & 15u;
    let scale = tail_half(row, tail) * f32(1u + 2u * nibble);
    let points = low | ((vec4<u32>(high) << vec4<u32>(8u, 7u, 6u, 5u)) & vec4<u32>(256u));
    return pointed(scale, points, vec2<u32>(signs, signs >> 8u));
}
