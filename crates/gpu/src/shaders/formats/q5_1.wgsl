// Tail: d, m, the high bits.
const PAIRED = true;
const SHIFTED = true;

fn quants(row: u32, run: u32) -> Quants {
    let at = (run >> 1u) * 2u;
    let scale = unpack2x16float(tail_word(row, at));
    return Quants(five(row, run, tail_word(row, at + 1u)), scale.x, scale.y);
}
