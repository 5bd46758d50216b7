// Body: 32 bytes of points, 32 of signs, 8 of the points' upper bits, 16 scales of 4 bits. Tail: d.
const PAIRED = false;
const SHIFTED = false;

fn quants(row: u32, run: u32) -> Quants {
    let group = run & 15u;
    let at = row + (run >> 4u) * 5u;
    let word = (group >> 1u) & 3u;
    let shift = 16u * (group & 1u);
    let low = weight[at + (group >> 3u)][word] >> shift;
    let signs = weight[at + 2u + (group >> 3u)][word] >> shift;
    let rest = weight[at + 4u];
    let nibbles = select(rest.xz, rest.yw, group >= 8u) >> vec2<u32>(4u * (group & 7u));
    let scale = tail_half(row, run >> 4u) * (0.5 + f32(nibbles.y & 15u)) * 0.25;
    let points = vec2<u32>((low & 255u) | ((nibbles.x & 3u) << 8u), ((low >> 8u) & 255u) | ((nibbles.x & 12u) << 6u));
    return pointed(scale, points, vec2<u32>(signs, signs >> 8u));
}
