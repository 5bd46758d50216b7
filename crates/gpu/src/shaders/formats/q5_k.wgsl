// Body: the block as it is, 176 bytes.
const PAIRED = true;
const SHIFTED = true;

fn quants(row: u32, run: u32) -> Quants {
    let at = row + (run >> 4u) * 11u;
    let group = (run & 15u) >> 1u;
    let scale = scale_and_minimum(weight[at], group);
    let low = weight[at + 3u + (group & 6u) + (run & 1u)] >> vec4<u32>(4u * (group & 1u));
    let high = (weight[at + 1u + (run & 1u)] >> vec4<u32>(group)) & vec4<u32>(0x01010101u);
    return Quants((low & vec4<u32>(0x0f0f0f0fu)) | (high << vec4<u32>(4u)), scale.x, -scale.y);
}
