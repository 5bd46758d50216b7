// Tiles of floats.
alias Quad = vec4<f32>;

fn narrow(values: vec4<f32>) -> Quad {
    return values;
}

fn wide(quad: Quad) -> vec4<f32> {
    return quad;
}
