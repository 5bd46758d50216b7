// Twice the values of E2M1: 0 1 2 3 4 6 8 12, then the same negated. In all four bytes at once, none of which overflows.
fn look_up(codes: u32) -> u32 {
    let size = codes & 0x07070707u;
    // From 4 on steps are of 2, and the last one is of 4.
    let large = (codes >> 2u) & 0x01010101u;
    let most = size & (size >> 1u) & large;
    let value = size + (size & (large | (large << 1u))) + (most << 1u);
    let minus = (codes >> 3u) & 0x01010101u;
    // 128 - value with its upper bit the other way round.
    return ((value ^ ((minus << 7u) - minus)) + minus) ^ (minus << 7u);
}
