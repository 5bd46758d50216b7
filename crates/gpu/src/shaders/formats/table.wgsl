// Values of 4-bit codes, four to a word.
fn look_up(codes: u32) -> vec4<f32> {
    let at = unpack4xU8(codes);
    return vec4<f32>(value(at.x), value(at.y), value(at.z), value(at.w));
}

fn value(code: u32) -> f32 {
    return f32(i32(VALUES[code >> 2u] << (24u - 8u * (code & 3u))) >> 24u);
}

fn looked_up(scale: f32, words: vec4<u32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        scale * look_up(words.x),
        scale * look_up(words.y),
        scale * look_up(words.z),
        scale * look_up(words.w),
    );
}
