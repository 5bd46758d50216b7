// Rows without what pads them. Grid: (width / 64, rows).
struct P { width: u32, stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.width {
        out[id.y * p.width + id.x] = x[id.y * p.stride + id.x];
    }
}
