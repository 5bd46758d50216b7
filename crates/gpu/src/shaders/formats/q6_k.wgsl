// Body: 128 bytes of low bits, 64 of high ones, 16 signed scales. Tail: d.
const PAIRED = false;
const SHIFTED = true;

fn quants(row: u32, run: u32) -> Quants {
    let block = run >> 4u;
    let group = run & 15u;
    let at = row + block * 13u;
    let half = group >> 3u;
    let k = (group & 7u) >> 1u;
    let side = group & 1u;
    let low = weight[at + half * 4u + (k & 1u) * 2u + side] >> vec4<u32>(4u * (k >> 1u));
    let high = (weight[at + 8u + half * 2u + side] >> vec4<u32>(2u * k)) & vec4<u32>(0x03030303u);
    let scale = f32(i32(weight[at + 12u][group >> 2u] << (24u - 8u * (group & 3u))) >> 24u);
    let d = tail_half(row, block) * scale;
    return Quants((low & vec4<u32>(0x0f0f0f0fu)) | (high << vec4<u32>(4u)), d, -32.0 * d);
}
