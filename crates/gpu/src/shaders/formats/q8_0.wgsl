// Body: 32 signed bytes. Tail: d.
const PAIRED = true;
const SHIFTED = false;

fn quants(row: u32, run: u32) -> Quants {
    return Quants(weight[row + run], tail_half(row, run >> 1u), 0.0);
}
