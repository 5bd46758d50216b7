// Rotary embedding, in place. Grid: (heads * pairs / 64, rows). From outside: `high_product` and `turn` (turn).
struct P { pairs: u32, heads: u32, head_dim: u32, stride: u32, spread: u32, gap: u32, magnitude: f32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> table: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> x: array<f32>;

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
