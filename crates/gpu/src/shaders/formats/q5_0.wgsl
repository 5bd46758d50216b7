// Tail: the high bits, d, nothing.
fn decode(row: u32, run: u32) -> mat4x4<f32> {
    let at = (run >> 1u) * 2u;
    let d = unpack2x16float(tail_word(row, at + 1u)).x;
    return shifted(d, five(row, run, tail_word(row, at)), -16.0);
}
