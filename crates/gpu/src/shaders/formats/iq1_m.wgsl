// Body: 32 bytes of points, 32 nibbles of 3 upper bits and the shift. Tail: four halves of four scales of 3 bits, and on top
// four bits each of d.
const PAIRED = false;
const SHIFTED = false;

fn quants(row: u32, run: u32) -> Quants {
    let block = run >> 4u;
    let group = run & 15u;
    let at = row + block * 3u;
    let low = weight[at + (group >> 3u)][(group >> 1u) & 3u] >> (16u * (group & 1u));
    let high = weight[at + 2u][group >> 2u] >> (8u * (group & 3u));
    let tail = vec2<u32>(tail_word(row, 2u * block), tail_word(row, 2u * block + 1u));
    let tops = ((tail >> vec2<u32>(12u)) & vec2<u32>(0xfu)) | ((tail >> vec2<u32>(24u)) & vec2<u32>(0xf0u));
    let d = unpack2x16float(tops.x | (tops.y << 8u)).x;
    let half = select(tail.x, tail.y, group >= 8u) >> (4u * (group & 4u));
    let scale = d * f32(2u * ((half >> (3u * (group & 3u))) & 7u) + 1u);
    let points = vec2<u32>((low & 255u) | ((high & 7u) << 8u), ((low >> 8u) & 255u) | ((high & 112u) << 4u));
    return shifted(scale, points, vec2<bool>((high & 8u) != 0u, (high & 128u) != 0u));
}
