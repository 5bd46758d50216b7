// Tiles of floats.
alias Quad = vec4<f32>;

fn narrow(run: mat4x4<f32>) -> array<Quad, 4> {
    return array<Quad, 4>(run[0], run[1], run[2], run[3]);
}

fn wide(quad: Quad) -> vec4<f32> {
    return quad;
}
