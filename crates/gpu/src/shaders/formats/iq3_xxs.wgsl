// Body: 64 points, eight words of four times 7 signs and a scale. Tail: d.
const PAIRED = true;
const SHIFTED = false;

fn quants(row: u32, run: u32) -> Quants {
    let group = run & 15u;
    let at = row + (run >> 4u) * 6u;
    let points = unpack4xU8(weight[at + (group >> 2u)][group & 3u]);
    let word = weight[at + 4u + (group >> 3u)][(group >> 1u) & 3u];
    let signs = word >> (14u * (group & 1u));
    let scale = tail_half(row, run >> 4u) * (0.5 + f32(word >> 28u)) * 0.5;
    return pointed(scale, points, vec2<u32>(even(signs), even(signs >> 7u)));
}
