// 16 weights from 32 bytes; a bfloat16 is the upper half of a float.
fn widen(words: vec2<u32>) -> vec4<f32> {
    let bits = vec4<u32>(words.x << 16u, words.x & 0xffff0000u, words.y << 16u, words.y & 0xffff0000u);
    return bitcast<vec4<f32>>(bits);
}

fn decode(row: u32, run: u32) -> mat4x4<f32> {
    let a = weight[row + run * 2u];
    let b = weight[row + run * 2u + 1u];
    return mat4x4<f32>(widen(a.xy), widen(a.zw), widen(b.xy), widen(b.zw));
}
