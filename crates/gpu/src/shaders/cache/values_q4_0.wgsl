// The two elements of a byte, half a block from each other; their scale lies behind the head's quants.
alias Value = vec2<f32>;
const VALUE_ELEMENTS = 2u;

fn value_at(head: u32, byte: u32) -> Value {
    let scale = unpack2x16float(values[head + p.value_dim / 8u + byte / 16u]).x;
    let bits = values[head + byte / 4u] >> (8u * (byte % 4u));
    return scale * (vec2<f32>(vec2<u32>(bits, bits >> 4u) & vec2<u32>(15u)) - vec2<f32>(8.0));
}

fn element(value: Value, i: u32) -> f32 {
    return select(value.x, value.y, i == 1u);
}

fn column(byte: u32, i: u32) -> u32 {
    return byte / 16u * 32u + byte % 16u + 16u * i;
}
