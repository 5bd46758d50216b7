// The rows of a matrix as floats. Grid: (runs of 16 / 64, rows).
struct P { runs: u32, stride: u32, tails: u32, first: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.runs {
        let values = decode(id.y * p.stride, id.x);
        let at = ((p.first + id.y) * p.runs + id.x) * 4u;
        out[at] = values[0];
        out[at + 1u] = values[1];
        out[at + 2u] = values[2];
        out[at + 3u] = values[3];
    }
}
