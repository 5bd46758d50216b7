// Adds a row of a table to each row: that of its position. Grid: (runs of 16 / 64, rows).
struct P { stride: u32, tails: u32, first: u32, rows: u32, x_stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> x: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let position = step[id.y + 1u].y;
    if id.x * 4u >= p.x_stride || position < p.first || position >= p.first + p.rows {
        return;
    }
    let values = decode((position - p.first) * p.stride, id.x);
    let at = id.y * p.x_stride + id.x * 4u;
    x[at] += values[0];
    x[at + 1u] += values[1];
    x[at + 2u] += values[2];
    x[at + 3u] += values[3];
}
