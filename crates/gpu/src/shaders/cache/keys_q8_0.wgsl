// Sixteen elements of a key against a query; their scale lies behind the key's quants.
const KEY_QUADS = 4u;

fn key_dot(key: vec4<u32>, at: u32) -> f32 {
    let a = chained(vec4<f32>(unpack4xI8(key.x)), query[at], 0.0);
    let b = chained(vec4<f32>(unpack4xI8(key.y)), query[at + 1u], a);
    let c = chained(vec4<f32>(unpack4xI8(key.z)), query[at + 2u], b);
    return chained(vec4<f32>(unpack4xI8(key.w)), query[at + 3u], c);
}

fn key_scale(key: u32, chunk: u32) -> f32 {
    let block = chunk / 2u;
    return unpack2x16float(keys[key + CHUNKS + block / 4u][block % 4u]).x;
}
