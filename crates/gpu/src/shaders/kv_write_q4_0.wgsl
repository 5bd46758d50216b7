// Rows of keys or values into the cache in blocks of 32 numbers of 4 bits, [head][place][words]: a head has the
// words of its quants, then a word per block with the scale as a half. Grid: (heads * blocks / 64, rows).
struct P { dim: u32, heads: u32, words: u32, kept: u32, stride: u32, places: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> cache: array<u32>;

// From -8, which the extreme becomes, to 7, as 0 to 15: to the nearest, halves upwards.
fn quant(value: f32) -> u32 {
    return u32(clamp(floor(value + 8.5), 0.0, 15.0));
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
    var extreme = 0.0;
    for (var i = 0u; i < 32u; i++) {
        let value = x[base + i];
        extreme = select(extreme, value, abs(value) > abs(extreme));
    }
    let d = extreme / -8.0;
    let inverse = select(0.0, 1.0 / d, d != 0.0);
    let place = step[id.y + 1u];
    let at = (head * p.places + place_of(place.z, place.y)) * p.words;
    for (var i = 0u; i < 4u; i++) {
        var word = 0u;
        for (var j = 0u; j < 4u; j++) {
            let low = base + i * 4u + j;
            let byte = quant(x[low] * inverse) | (quant(x[low + 16u] * inverse) << 4u);
            word |= byte << (8u * j);
        }
        cache[at + block * 4u + i] = word;
    }
    cache[at + p.dim / 8u + block] = half(d);
}
