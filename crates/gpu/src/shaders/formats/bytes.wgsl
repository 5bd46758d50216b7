// Weights whose bytes are what is multiplied.
fn packed(row: u32, run: u32) -> Packed {
    return quants(row, run);
}

fn opened(q: Packed) -> Quants {
    return q;
}

// Bytes with an offset are none of them negative, which saves a device the extension of their signs.
fn numbers(word: u32) -> vec4<f32> {
    if SHIFTED {
        return vec4<f32>(unpack4xU8(word));
    }
    return vec4<f32>(unpack4xI8(word));
}
