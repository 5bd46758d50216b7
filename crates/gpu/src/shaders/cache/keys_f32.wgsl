// Four elements of a key against a query.
const KEY_QUADS = 1u;

fn key_dot(key: vec4<u32>, at: u32) -> f32 {
    return chained(bitcast<vec4<f32>>(key), query[at], 0.0);
}

fn key_scale(key: u32, chunk: u32) -> f32 {
    return 1.0;
}
