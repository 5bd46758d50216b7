// Values of 4-bit codes, four to a word.
fn look_up(codes: u32) -> u32 {
    let at = unpack4xU8(codes);
    return value(at.x) | (value(at.y) << 8u) | (value(at.z) << 16u) | (value(at.w) << 24u);
}

fn value(code: u32) -> u32 {
    return (VALUES[code >> 2u] >> (8u * (code & 3u))) & 255u;
}

fn looked_up(scale: f32, words: vec4<u32>) -> Quants {
    return Quants(vec4<u32>(look_up(words.x), look_up(words.y), look_up(words.z), look_up(words.w)), scale, 0.0);
}
