// Body: 64 bytes of quants as of Q2_K. Tail: d.
const PAIRED = true;
const SHIFTED = false;

fn quants(row: u32, run: u32) -> Quants {
    let block = run >> 4u;
    let group = run & 15u;
    let words = weight[row + block * 4u + (group >> 3u) * 2u + (group & 1u)] >> vec4<u32>(group & 6u);
    return Quants(lowered(words & vec4<u32>(0x03030303u)), tail_half(row, block), 0.0);
}
