// Eight elements of a key against a query.
const KEY_QUADS = 2u;

fn key_dot(key: vec4<u32>, at: u32) -> f32 {
    let sum = chained(vec4<f32>(unpack2x16float(key.x), unpack2x16float(key.y)), query[at], 0.0);
    return chained(vec4<f32>(unpack2x16float(key.z), unpack2x16float(key.w)), query[at + 1u], sum);
}

fn key_scale(key: u32, chunk: u32) -> f32 {
    return 1.0;
}
