// A block of 32 elements of a key against a query: low nibbles are its first half. Its scale lies behind the key's quants.
const KEY_QUADS = 8u;

fn key_dot(key: vec4<u32>, at: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < 4u; i++) {
        let low = chained(four_bits(key[i]), query[at + i], 0.0);
        sum += chained(four_bits(key[i] >> 4u), query[at + 4u + i], low);
    }
    return sum;
}

fn four_bits(word: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xU8(word & 0x0f0f0f0fu)) - vec4<f32>(8.0);
}

fn key_scale(key: u32, chunk: u32) -> f32 {
    return unpack2x16float(keys[key + CHUNKS + chunk / 4u][chunk % 4u]).x;
}
