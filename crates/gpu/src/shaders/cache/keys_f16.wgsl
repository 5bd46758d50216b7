// Eight elements of a key against a query.
const KEY_QUADS = 2u;

fn key_dot(key: vec4<u32>, at: u32) -> f32 {
    return dot(vec4<f32>(unpack2x16float(key.x), unpack2x16float(key.y)), query[at])
        + dot(vec4<f32>(unpack2x16float(key.z), unpack2x16float(key.w)), query[at + 1u]);
}

fn key_scale(key: u32, chunk: u32) -> f32 {
    return 1.0;
}
