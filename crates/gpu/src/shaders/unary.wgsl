// x = f(x), four elements at a time; what fills up a row stays zero. Grid: (stride / 4 / 64, rows). From outside: `f`, and
// DROPS, whether it turns NaN into a number. Otherwise NaN is found by its bits and kept: a compiler may take a selection of
// floats for a maximum, which drops NaN.
struct P { quads: u32, width: u32, a: f32, b: f32, c: f32, d: f32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> x: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.quads {
        let at = id.y * p.quads + id.x;
        let column = vec4<u32>(4u * id.x) + vec4<u32>(0u, 1u, 2u, 3u);
        let given = x[at];
        let none = (bitcast<vec4<u32>>(given) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
        let kept = select(f(given), given, none & vec4<bool>(!DROPS));
        x[at] = select(vec4<f32>(0.0), kept, column < vec4<u32>(p.width));
    }
}
