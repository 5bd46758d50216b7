// Tiles of halves; what is too large for them becomes the largest. Products and sums stay floats.
alias Quad = vec4<f16>;

fn narrow(values: vec4<f32>) -> Quad {
    return vec4<f16>(clamp(values, vec4<f32>(-65504.0), vec4<f32>(65504.0)));
}

fn wide(quad: Quad) -> vec4<f32> {
    return vec4<f32>(quad);
}
