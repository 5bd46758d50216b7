// Body: 32 and 16 bytes of five digits each. Tail: 4 bytes of four digits, d. A byte is a fraction of 256 in base
// 3: times 3^k, modulo 256, times 3, what overflows is digit k. Run k of a stretch of bytes is the k-th digit of each.
const PAIRED = true;
const SHIFTED = false;

fn quants(row: u32, run: u32) -> Quants {
    let block = run >> 4u;
    let group = run & 15u;
    let at = row + block * 3u;
    let tail = 3u * block;
    let early = group < 10u;
    // The last run, where the digits are those of the tail.
    let last = group == 15u;
    let word = tail_bits(row, tail) | (tail_bits(row, tail + 1u) << 16u);
    let bytes = select(weight[at + select(2u, group & 1u, early)], vec4<u32>(word), last);
    let power = vec4<u32>(power_of_3(select(group - 10u, group >> 1u, early)));
    let powers = select(power, vec4<u32>(1u, 3u, 9u, 27u), last);
    return Quants(digits(bytes, powers), tail_half(row, tail + 2u), 0.0);
}

// Up to the fourth.
fn power_of_3(k: u32) -> u32 {
    return select((0x1b090301u >> (8u * (k & 3u))) & 255u, 81u, k >= 4u);
}

fn digits(bytes: vec4<u32>, powers: vec4<u32>) -> vec4<u32> {
    let even = digits_of_two(bytes & vec4<u32>(0x00ff00ffu), powers);
    let odd = digits_of_two((bytes >> vec4<u32>(8u)) & vec4<u32>(0x00ff00ffu), powers);
    return lowered(even | (odd << vec4<u32>(8u)));
}

// Of two bytes in 16 bits each.
fn digits_of_two(bytes: vec4<u32>, powers: vec4<u32>) -> vec4<u32> {
    let rest = (bytes * powers) & vec4<u32>(0x00ff00ffu);
    return ((rest * vec4<u32>(3u)) >> vec4<u32>(8u)) & vec4<u32>(0x00ff00ffu);
}
