// Tiles of halves; what is too large for them becomes the largest. Products and sums stay floats.
alias Quad = vec4<f16>;

fn narrow(run: mat4x4<f32>) -> array<Quad, 4> {
    let sizes = max(max(abs(run[0]), abs(run[1])), max(abs(run[2]), abs(run[3])));
    // What is no number goes either way, and stays none.
    if max(max(sizes.x, sizes.y), max(sizes.z, sizes.w)) > 65504.0 {
        return array<Quad, 4>(clamped(run[0]), clamped(run[1]), clamped(run[2]), clamped(run[3]));
    }
    return array<Quad, 4>(vec4<f16>(run[0]), vec4<f16>(run[1]), vec4<f16>(run[2]), vec4<f16>(run[3]));
}

fn clamped(values: vec4<f32>) -> Quad {
    let halves = vec4<f16>(clamp(values, vec4<f32>(-65504.0), vec4<f32>(65504.0)));
    // What is not finite stays so, which clamping would hide: by its bits, since as a float it may be taken for a number.
    let endless = (bitcast<vec4<u32>>(values) & vec4<u32>(0x7fffffffu)) >= vec4<u32>(0x7f800000u);
    return select(halves, vec4<f16>(values), endless);
}

fn wide(quad: Quad) -> vec4<f32> {
    return vec4<f32>(quad);
}
