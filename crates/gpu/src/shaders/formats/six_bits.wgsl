// The 6-bit scale and minimum of a group of Q4_K and Q5_K, times d and dmin: the first 16 bytes of a block.
fn scale_and_minimum(head: vec4<u32>, group: u32) -> vec2<f32> {
    let shift = 8u * (group & 3u);
    let a = head.y >> shift;
    let b = head.z >> shift;
    let c = head.w >> shift;
    let early = vec2<u32>(a & 63u, b & 63u);
    let late = vec2<u32>((c & 15u) | ((a >> 2u) & 48u), ((c >> 4u) & 15u) | ((b >> 2u) & 48u));
    return unpack2x16float(head.x) * vec2<f32>(select(early, late, group >= 4u));
}
