// Body: 16 scales (low nibble) and minima (high), 64 bytes of quants. Tail: d, dmin.
const PAIRED = false;
const SHIFTED = true;

fn quants(row: u32, run: u32) -> Quants {
    let block = run >> 4u;
    let group = run & 15u;
    let at = row + block * 5u;
    let pair = weight[at][group >> 2u] >> (8u * (group & 3u));
    let d = unpack2x16float(tail_word(row, block));
    let words = weight[at + 1u + (group >> 3u) * 2u + (group & 1u)] >> vec4<u32>(group & 6u);
    return Quants(words & vec4<u32>(0x03030303u), d.x * f32(pair & 15u), -d.y * f32((pair >> 4u) & 15u));
}
