// The 5-bit numbers of Q5_0 and Q5_1: nibbles as in Q4_0, and 32 high bits in order.
fn spread(bits: u32) -> u32 {
    return ((bits & 1u) | ((bits & 2u) << 7u) | ((bits & 4u) << 14u) | ((bits & 8u) << 21u)) << 4u;
}

fn five(row: u32, run: u32, high: u32) -> vec4<u32> {
    let low = (weight[row + (run >> 1u)] >> vec4<u32>(4u * (run & 1u))) & vec4<u32>(0x0f0f0f0fu);
    let bits = high >> (16u * (run & 1u));
    return low | vec4<u32>(spread(bits), spread(bits >> 4u), spread(bits >> 8u), spread(bits >> 12u));
}
