// Rows of keys or values into the cache in blocks of 32 signed bytes, [head][place][words]: a head has the
// words of its quants, then a word per block with the scale as a half. Grid: (heads * blocks / 64, rows).
struct P { dim: u32, heads: u32, words: u32, kept: u32, stride: u32, places: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> cache: array<u32>;

// To the nearest, halves away from zero.
fn quant(value: f32) -> u32 {
    let size = abs(value);
    let whole = floor(size);
    let rounded = i32(select(whole, whole + 1.0, size - whole >= 0.5));
    return u32(select(rounded, -rounded, value < 0.0)) & 255u;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let blocks = p.dim / 32u;
    let head = id.x / blocks;
    let block = id.x % blocks;
    if head >= p.heads {
        return;
    }
    let base = id.y * p.stride + head * p.dim + block * 32u;
    var most = 0.0;
    for (var i = 0u; i < 32u; i++) {
        most = max(most, abs(x[base + i]));
    }
    let d = most / 127.0;
    let inverse = select(0.0, 1.0 / d, d > 0.0);
    let place = step[id.y + 1u];
    let at = (head * p.places + place_of(place.z, place.y)) * p.words;
    for (var i = 0u; i < 8u; i++) {
        let four = base + i * 4u;
        cache[at + block * 8u + i] = quant(x[four] * inverse)
            | (quant(x[four + 1u] * inverse) << 8u)
            | (quant(x[four + 2u] * inverse) << 16u)
            | (quant(x[four + 3u] * inverse) << 24u);
    }
    cache[at + p.dim / 4u + block] = half(d);
}
