// Rows of keys or values into the cache, [head][place][words]. Grid: (heads * words / 64, rows).
struct P { dim: u32, heads: u32, words: u32, kept: u32, stride: u32, places: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> cache: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let head = id.x / p.words;
    let word = id.x % p.words;
    let element = word * PER_WORD;
    if head >= p.heads || element >= p.dim {
        return;
    }
    let at = id.y * p.stride + head * p.dim + element;
    let second = select(0.0, x[at + 1u], PER_WORD == 2u && element + 1u < p.dim);
    let place = step[id.y + 1u];
    cache[(head * p.places + place_of(place.z, place.y)) * p.words + word] = pack(vec2<f32>(x[at], second));
}
