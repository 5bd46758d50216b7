// Tail: d, m, the high bits.
fn decode(row: u32, run: u32) -> mat4x4<f32> {
    let at = (run >> 1u) * 2u;
    let scale = unpack2x16float(tail_word(row, at));
    return affine(scale.x, five(row, run, tail_word(row, at + 1u)), scale.y);
}
