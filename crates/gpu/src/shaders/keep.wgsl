// The last rows of each sequence into its state, once the convolution has read what was there. Grid: (width / 64, rows);
// the last row of a sequence does it. From outside: `earlier` (conv_past).
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> state: array<f32>;
@group(0) @binding(3) var<storage, read> step: array<vec4<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= p.width || step[step[0].z + 1u + id.y].z != 0u {
        return;
    }
    // The oldest first: what is read of the state comes later than what is written.
    for (var place = 0u; place + 1u < p.taps; place++) {
        let value = earlier(id.y, id.x, p.taps - 2u - place);
        state[state_at(step[id.y + 1u].z, place, id.x)] = value;
    }
}
