// Body: eight groups of four points and a word of four times 7 signs and a scale. Tail: d.
const PAIRED = true;
const SHIFTED = false;

fn quants(row: u32, run: u32) -> Quants {
    let four = weight[row + (run >> 2u)];
    let pair = select(four.xy, four.zw, (run & 2u) == 2u);
    let side = run & 1u;
    let points = pair.x >> (16u * side);
    let signs = pair.y >> (14u * side);
    let scale = tail_half(row, run >> 4u) * (0.5 + f32(pair.y >> 28u)) * 0.25;
    return pointed(scale, vec2<u32>(points & 255u, (points >> 8u) & 255u), vec2<u32>(even(signs), even(signs >> 7u)));
}
