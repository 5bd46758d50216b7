// Rows of a table, decoded. Grid: (runs of 16 / 64, tokens).
struct P { stride: u32, tails: u32, first: u32, rows: u32, out_stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let token = step[id.y + 1u].x;
    if id.x * 4u >= p.out_stride || token < p.first || token >= p.first + p.rows {
        return;
    }
    let values = decode((token - p.first) * p.stride, id.x);
    let at = id.y * p.out_stride + id.x * 4u;
    out[at] = values[0];
    out[at + 1u] = values[1];
    out[at + 2u] = values[2];
    out[at + 3u] = values[3];
}
