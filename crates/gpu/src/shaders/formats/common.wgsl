// What the block formats share. A row holds the bodies of all its blocks, then (from `p.tails` on) their tails.

// The 32-bit word `i` of the row's tails.
fn tail_word(row: u32, i: u32) -> u32 {
    return weight[row + p.tails + (i >> 2u)][i & 3u];
}

// The half `i` of the row's tails.
fn tail_half(row: u32, i: u32) -> f32 {
    let pair = unpack2x16float(tail_word(row, i >> 1u));
    return select(pair.x, pair.y, (i & 1u) == 1u);
}

// Four words of four bytes each, as numbers.
fn unsigned(words: vec4<u32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        vec4<f32>(unpack4xU8(words.x)),
        vec4<f32>(unpack4xU8(words.y)),
        vec4<f32>(unpack4xU8(words.z)),
        vec4<f32>(unpack4xU8(words.w)),
    );
}

fn affine(scale: f32, q: mat4x4<f32>, offset: f32) -> mat4x4<f32> {
    let o = vec4<f32>(offset);
    return mat4x4<f32>(scale * q[0] + o, scale * q[1] + o, scale * q[2] + o, scale * q[3] + o);
}

// scale * (q + shift)
fn shifted(scale: f32, q: mat4x4<f32>, shift: f32) -> mat4x4<f32> {
    let o = vec4<f32>(shift);
    return mat4x4<f32>(scale * (q[0] + o), scale * (q[1] + o), scale * (q[2] + o), scale * (q[3] + o));
}
