// Angles of rotary embeddings. A frequency is a fraction of a turn per position in 64 bits of fixed point, so that the angle at
// any position is exact to 2^-32 of a turn; sine and cosine are polynomials, since WGSL promises only 11 bits of its own.

// The upper 32 bits of a product.
fn high_product(a: u32, b: u32) -> u32 {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let middle = ah * bl + ((al * bl) >> 16u);
    let other = al * bh + (middle & 0xffffu);
    return ah * bh + (middle >> 16u) + (other >> 16u);
}

// (cos, sin) of a fraction of a turn.
fn turn(fraction: u32) -> vec2<f32> {
    let quarter = (fraction + 0x20000000u) >> 30u;
    let a = f32(i32(fraction - (quarter << 30u))) * 1.4629180792671596e-9; // 2 pi / 2^32
    let s = a * a;
    let sine = a * (1.0 + s * (-1.6666667e-1 + s * (8.3333333e-3 + s * (-1.9841270e-4 + s * 2.7557319e-6))));
    let cosine = 1.0 + s * (-0.5 + s * (4.1666667e-2 + s * (-1.3888889e-3 + s * (2.4801587e-5 - s * 2.7557319e-7))));
    switch quarter & 3u {
        case 0u: { return vec2<f32>(cosine, sine); }
        case 1u: { return vec2<f32>(-sine, cosine); }
        case 2u: { return vec2<f32>(-cosine, -sine); }
        default: { return vec2<f32>(sine, -cosine); }
    }
}
