// Scores by distance for every head: out[distance][head] is the table's row of the distance's bucket.
// Grid: distances * heads / 64.
struct P { count: u32, heads: u32, stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> table: array<f32>;
@group(0) @binding(2) var<storage, read> buckets: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.count {
        out[id.x] = table[buckets[id.x / p.heads] * p.stride + id.x % p.heads];
    }
}
