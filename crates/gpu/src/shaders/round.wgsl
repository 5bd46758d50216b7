// Rows of inputs rounded to bytes. Grid: (quads / 64, rows). From outside: `round_four` (rounds).
struct P { quads: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    var values = vec4<f32>(0.0);
    if id.x < p.quads {
        values = x[id.y * p.quads + id.x];
    }
    round_four(values, id.x, id.y, p.quads, lid);
}
