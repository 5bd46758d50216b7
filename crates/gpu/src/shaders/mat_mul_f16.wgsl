// Tiles of halves; what is too large for them becomes the largest. Products and sums stay floats.
alias Quad = vec4<f16>;

fn narrow(values: vec4<f32>) -> Quad {
    let halves = vec4<f16>(clamp(values, vec4<f32>(-65504.0), vec4<f32>(65504.0)));
    // What is not finite stays so, which clamping would hide: by its bits, since as a float it may be taken for a number.
    let endless = (bitcast<vec4<u32>>(values) & vec4<u32>(0x7fffffffu)) >= vec4<u32>(0x7f800000u);
    return select(halves, vec4<f16>(values), endless);
}

fn wide(quad: Quad) -> vec4<f32> {
    return vec4<f32>(quad);
}
