// Numbers of no pattern into a buffer. Grid: (invocations / 256), p.threads of them.
struct P { quads: u32, threads: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> x: array<vec4<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    for (var i = id.x; i < p.quads; i += p.threads) {
        var word = (vec4<u32>(i) * 4u + vec4<u32>(0u, 1u, 2u, 3u)) * 2654435769u;
        word = (word ^ (word >> vec4<u32>(15u))) * 2246822519u;
        x[i] = word ^ (word >> vec4<u32>(13u));
    }
}
