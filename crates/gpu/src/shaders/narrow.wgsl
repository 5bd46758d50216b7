// Rows of inputs as halves, as cooperative matrices want them. Grid: (quads / 64, rows). From outside: `Quad` and `clamped`
// (mat_mul_f16).
struct P { stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<Quad>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.stride {
        let at = id.y * p.stride + id.x;
        out[at] = clamped(x[at]);
    }
}
