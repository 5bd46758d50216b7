// Body: 32 bytes of third bits, 64 bytes of quants. Tail: 12 bytes of scales, d, nothing.
const PAIRED = false;
const SHIFTED = true;

fn quants(row: u32, run: u32) -> Quants {
    let block = run >> 4u;
    let group = run & 15u;
    let at = row + block * 6u;
    let tail = row + p.tails + block;
    let low = weight[tail][(group & 7u) >> 2u] >> (8u * (group & 3u) + 4u * (group >> 3u));
    let high = weight[tail].z >> (8u * (group & 3u) + 2u * (group >> 2u));
    let scale = f32((low & 15u) | ((high & 3u) << 4u)) - 32.0;
    let d = unpack2x16float(weight[tail].w).x;
    let low_bits = (weight[at + 2u + (group >> 3u) * 2u + (group & 1u)] >> vec4<u32>(group & 6u)) & vec4<u32>(0x03030303u);
    let third = (weight[at + (group & 1u)] >> vec4<u32>(group >> 1u)) & vec4<u32>(0x01010101u);
    return Quants(low_bits | (third << vec4<u32>(2u)), d * scale, -4.0 * d * scale);
}
