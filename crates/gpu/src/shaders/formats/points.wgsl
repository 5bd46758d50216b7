// What the formats with codebooks share. Their points are signed bytes in a buffer of their own, binding 7 (book.rs).

// Eight signs from 7 bits: the eighth makes the number of those that are set even.
fn even(bits: u32) -> u32 {
    let seven = bits & 127u;
    return seven | ((countOneBits(seven) & 1u) << 7u);
}

// Four bytes, none of them 0, negative where a bit of the lowest four is set.
fn signed(bytes: u32, signs: u32) -> u32 {
    let minus = ((signs & 15u) * 0x00204081u) & 0x01010101u;
    return (bytes ^ (minus * 255u)) + minus;
}
