// The four elements of a word; their scale lies behind the head's quants.
alias Value = vec4<f32>;
const VALUE_ELEMENTS = 4u;

fn value_at(head: u32, word: u32) -> Value {
    let scale = unpack2x16float(values[head + p.value_dim / 4u + word / 8u]).x;
    return scale * vec4<f32>(unpack4xI8(values[head + word]));
}

fn element(value: Value, i: u32) -> f32 {
    return value[i];
}

fn column(word: u32, i: u32) -> u32 {
    return word * VALUE_ELEMENTS + i;
}
