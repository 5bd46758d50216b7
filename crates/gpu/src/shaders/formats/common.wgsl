// What the block formats share. A row holds the bodies of all its blocks, then (from `p.tails` on) their tails. A format's
// `quants` gives 16 weights, which are scale * byte + offset; as floats they are what `decode` makes of that. A format is
// PAIRED if each 32 weights have one scale and offset, and SHIFTED if its offsets are anything but 0.
struct Quants {
    bytes: vec4<u32>, // signed
    scale: f32,
    offset: f32,
}

alias Packed = Quants;

fn values(q: Packed) -> mat4x4<f32> {
    return mat4x4<f32>(numbers(q.bytes.x), numbers(q.bytes.y), numbers(q.bytes.z), numbers(q.bytes.w));
}

// The sum of weights times inputs, by that of numbers times inputs and that of inputs.
fn scaled(q: Packed, product: f32, inputs: f32) -> f32 {
    if SHIFTED {
        return q.scale * product + q.offset * inputs;
    }
    return q.scale * product;
}

fn decoded(q: Packed) -> mat4x4<f32> {
    let o = vec4<f32>(q.offset);
    let v = values(q);
    return mat4x4<f32>(q.scale * v[0] + o, q.scale * v[1] + o, q.scale * v[2] + o, q.scale * v[3] + o);
}

fn decode(row: u32, run: u32) -> mat4x4<f32> {
    return decoded(packed(row, run));
}

// The 32-bit word `i` of the row's tails.
fn tail_word(row: u32, i: u32) -> u32 {
    return weight[row + p.tails + (i >> 2u)][i & 3u];
}

// The half `i` of the row's tails, as bits.
fn tail_bits(row: u32, i: u32) -> u32 {
    return (tail_word(row, i >> 1u) >> (16u * (i & 1u))) & 0xffffu;
}

// The same as a number.
fn tail_half(row: u32, i: u32) -> f32 {
    let pair = unpack2x16float(tail_word(row, i >> 1u));
    return select(pair.x, pair.y, (i & 1u) == 1u);
}
