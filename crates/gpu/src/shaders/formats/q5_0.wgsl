// Tail: the high bits, d, nothing.
const PAIRED = true;
const SHIFTED = true;

fn quants(row: u32, run: u32) -> Quants {
    let at = (run >> 1u) * 2u;
    let d = unpack2x16float(tail_word(row, at + 1u)).x;
    return Quants(five(row, run, tail_word(row, at)), d, -16.0 * d);
}
