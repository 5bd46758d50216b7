// Rotary embedding, in place. Grid: (heads * pairs / 64, rows).
//
// A frequency is a fraction of a turn per position in 64 bits of fixed point, so that the angle at any position is
// exact to 2^-32 of a turn; sine and cosine are polynomials, since WGSL promises only 11 bits of its own.
struct P { pairs: u32, heads: u32, head_dim: u32, stride: u32, spread: u32, gap: u32, magnitude: f32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> table: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> x: array<f32>;

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

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= p.heads * p.pairs {
        return;
    }
    let pair = id.x % p.pairs;
    let position = step[id.y + 1u].y;
    let frequency = table[pair];
    let t = turn(high_product(position, frequency.x) + position * frequency.y) * p.magnitude;
    let i = id.y * p.stride + (id.x / p.pairs) * p.head_dim + pair * p.spread;
    let j = i + p.gap;
    let a = x[i];
    let b = x[j];
    x[i] = a * t.x - b * t.y;
    x[j] = a * t.y + b * t.x;
}
