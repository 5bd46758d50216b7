// Parts of rows, each filled up with zeros to whole runs. Grid: (parts * padded / 64, rows).
struct P { parts: u32, len: u32, padded: u32, stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let part = id.x / p.padded;
    let column = id.x % p.padded;
    if part >= p.parts {
        return;
    }
    var value = 0.0;
    if column < p.len {
        value = x[id.y * p.stride + part * p.len + column];
    }
    out[id.y * p.parts * p.padded + id.x] = value;
}
