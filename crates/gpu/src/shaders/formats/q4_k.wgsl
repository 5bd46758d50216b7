// Body: the block as it is, 144 bytes.
const PAIRED = true;
const SHIFTED = true;

fn quants(row: u32, run: u32) -> Quants {
    let at = row + (run >> 4u) * 9u;
    let group = (run & 15u) >> 1u;
    let scale = scale_and_minimum(weight[at], group);
    let words = weight[at + 1u + (group & 6u) + (run & 1u)] >> vec4<u32>(4u * (group & 1u));
    return Quants(words & vec4<u32>(0x0f0f0f0fu), scale.x, -scale.y);
}
