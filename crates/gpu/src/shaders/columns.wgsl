// Runs of columns of a row into columns of another. Grid: (groups * len / 64, rows).
struct P {
    count: u32, // groups * len
    len: u32,
    first: u32,
    first_step: u32,
    to: u32,
    to_step: u32,
    stride: u32,
    out_stride: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.count {
        let run = id.x / p.len;
        let column = id.x % p.len;
        out[id.y * p.out_stride + p.to + run * p.to_step + column] =
            x[id.y * p.stride + p.first + run * p.first_step + column];
    }
}
