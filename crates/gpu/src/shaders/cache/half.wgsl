// A float as a half, to the nearest, ties to even: `pack2x16float` may do otherwise.
fn half(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let size = bits & 0x7fffffffu;
    if size >= 0x47800000u { // 65536 and more, infinity, what is no number
        return sign | select(0x7c00u, 0x7e00u, size > 0x7f800000u);
    }
    if size < 0x38800000u { // subnormal: multiples of 2^-24
        return sign | u32(round(bitcast<f32>(size) * 16777216.0));
    }
    return sign | ((size - 0x38000000u + 0x0fffu + ((size >> 13u) & 1u)) >> 13u);
}
