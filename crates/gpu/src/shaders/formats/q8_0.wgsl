// Body: 32 signed bytes. Tail: d.
fn decode(row: u32, run: u32) -> mat4x4<f32> {
    let words = weight[row + run];
    let d = tail_half(row, run >> 1u);
    return mat4x4<f32>(
        d * vec4<f32>(unpack4xI8(words.x)),
        d * vec4<f32>(unpack4xI8(words.y)),
        d * vec4<f32>(unpack4xI8(words.z)),
        d * vec4<f32>(unpack4xI8(words.w)),
    );
}
