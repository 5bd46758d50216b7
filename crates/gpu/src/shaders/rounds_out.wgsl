// Rounds `len` numbers of a row of `out` from `start` on, which the workgroup has written: whole blocks. From outside: WG, `out`,
// `round_four` (rounds).
fn round_out(row: u32, stride: u32, start: u32, len: u32, lid: u32) {
    storageBarrier();
    for (var first = 0u; first < len; first += 4u * WG) {
        let i = first + 4u * lid;
        var values = vec4<f32>(0.0);
        if i < len {
            let at = row * stride + start + i;
            values = vec4<f32>(out[at], out[at + 1u], out[at + 2u], out[at + 3u]);
        }
        round_four(values, select(0xffffffffu, (start + i) / 4u, i < len), row, stride / 4u, lid);
    }
}
