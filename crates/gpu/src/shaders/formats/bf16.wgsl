// 16 weights from 32 bytes; a bfloat16 is the upper half of a float.
struct Packed { a: vec4<u32>, b: vec4<u32> }

fn packed(row: u32, run: u32) -> Packed {
    return Packed(weight[row + run * 2u], weight[row + run * 2u + 1u]);
}

fn widen(words: vec2<u32>) -> vec4<f32> {
    let bits = vec4<u32>(words.x << 16u, words.x & 0xffff0000u, words.y << 16u, words.y & 0xffff0000u);
    return bitcast<vec4<f32>>(bits);
}

fn values(w: Packed) -> mat4x4<f32> {
    return mat4x4<f32>(widen(w.a.xy), widen(w.a.zw), widen(w.b.xy), widen(w.b.zw));
}

fn scaled(w: Packed, product: f32, inputs: f32) -> f32 {
    return product;
}

fn decoded(w: Packed) -> mat4x4<f32> {
    return values(w);
}

fn decode(row: u32, run: u32) -> mat4x4<f32> {
    return values(packed(row, run));
}
