// Rows of up to five buffers side by side, without what fills them up. Grid: (columns / 64, rows).
struct P {
    a: u32, // columns
    b: u32,
    c: u32,
    d: u32,
    e: u32,
    a_stride: u32,
    b_stride: u32,
    c_stride: u32,
    d_stride: u32,
    e_stride: u32,
    columns: u32, // of all
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read> c: array<f32>;
@group(0) @binding(4) var<storage, read> d: array<f32>;
@group(0) @binding(5) var<storage, read> e: array<f32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;

fn value(row: u32, column: u32) -> f32 {
    var at = column;
    if at < p.a {
        return a[row * p.a_stride + at];
    }
    at -= p.a;
    if at < p.b {
        return b[row * p.b_stride + at];
    }
    at -= p.b;
    if at < p.c {
        return c[row * p.c_stride + at];
    }
    at -= p.c;
    if at < p.d {
        return d[row * p.d_stride + at];
    }
    return e[row * p.e_stride + at - p.d];
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.columns {
        out[id.y * p.columns + id.x] = value(id.y, id.x);
    }
}
