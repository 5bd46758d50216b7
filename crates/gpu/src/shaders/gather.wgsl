// The step's output rows. Grid: (stride / 64, outputs).
struct P { stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.stride {
        out[id.y * p.stride + id.x] = x[step[id.y + 1u].w * p.stride + id.x];
    }
}
