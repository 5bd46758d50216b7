// Body: 32 bytes of points, eight halves of four times 3 upper bits, a scale and the shift of 32 weights. Tail: d.
const PAIRED = true;
const SHIFTED = false;

fn quants(row: u32, run: u32) -> Quants {
    let group = run & 15u;
    let at = row + (run >> 4u) * 3u;
    let low = weight[at + (group >> 3u)][(group >> 1u) & 3u] >> (16u * (group & 1u));
    let half = weight[at + 2u][group >> 2u] >> (8u * (group & 2u));
    let high = half >> (6u * (group & 1u));
    let scale = tail_half(row, run >> 4u) * f32(2u * ((half >> 12u) & 7u) + 1u);
    let points = vec2<u32>((low & 255u) | ((high & 7u) << 8u), ((low >> 8u) & 255u) | ((high & 56u) << 5u));
    return shifted(scale, points, vec2<bool>((half & 0x8000u) != 0u));
}
