// x = f(x), four elements at a time. Grid: (stride / 4 / 64, rows). From outside: `f`.
struct P { stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> x: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.stride {
        let at = id.y * p.stride + id.x;
        x[at] = f(x[at]);
    }
}
