// The sum of a row's choices. Grid: (stride / 4 / 64, rows).
struct P { stride: u32, used: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.stride {
        var sum = vec4<f32>(0.0);
        for (var i = 0u; i < p.used; i++) {
            sum += x[(id.y * p.used + i) * p.stride + id.x];
        }
        out[id.y * p.stride + id.x] = sum;
    }
}
