// Body: 32 points of 9 bits with 7 signs each. Tail: d, 16 scales of 4 bits.
const PAIRED = false;
const SHIFTED = false;

fn quants(row: u32, run: u32) -> Quants {
    let group = run & 15u;
    let tail = 5u * (run >> 4u);
    let both = weight[row + (run >> 2u)][run & 3u];
    let nibble = (tail_bits(row, tail + 1u + (group >> 2u)) >> (4u * (group & 3u))) & 15u;
    let scale = tail_half(row, tail) * (0.5 + f32(nibble)) * 0.25;
    return pointed(scale, vec2<u32>(both & 511u, (both >> 16u) & 511u), vec2<u32>(even(both >> 9u), even(both >> 25u)));
}
