// Reads a buffer once, neighbours 16 bytes each, four of those at a time. Grid: (invocations / 256), p.threads of them;
// p.quads is a multiple of 4 * p.threads.
struct P { quads: u32, threads: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var sum = vec4<u32>();
    for (var i = id.x; i < p.quads; i += 4u * p.threads) {
        let first = x[i] ^ x[i + p.threads];
        sum ^= first ^ x[i + 2u * p.threads] ^ x[i + 3u * p.threads];
    }
    out[id.x] = sum.x ^ sum.y ^ sum.z ^ sum.w;
}
