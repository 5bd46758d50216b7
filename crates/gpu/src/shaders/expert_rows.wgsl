// A row for each choice, with something of its expert. Grid: (stride / 4 / 64, choices). From outside: `changed`.
struct P { stride: u32, bias_stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> choices: array<vec2<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.stride {
        let at = id.y * p.stride + id.x;
        x[at] = changed(x[at], choices[id.y], id.x);
    }
}
