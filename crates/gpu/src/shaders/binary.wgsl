// x = f(x, y), four elements at a time. Grid: (stride / 4 / 64, rows). From outside: WG, `f`, `round_four` (rounds, or nothing).
struct P { stride: u32, y_stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> y: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    var value = vec4<f32>(0.0);
    if id.x < p.stride {
        let at = id.y * p.stride + id.x;
        value = f(x[at], y[id.y * p.y_stride + id.x]);
        x[at] = value;
    }
    round_four(value, id.x, id.y, p.stride, lid);
}
