// x[t][g] *= y[t][g]: each group of a row by a number. Grid: (width / 64, rows).
struct P { width: u32, len: u32, stride: u32, y_stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.width {
        x[id.y * p.stride + id.x] *= y[id.y * p.y_stride + id.x / p.len];
    }
}
