// The two elements of a word.
alias Value = vec2<f32>;
const VALUE_ELEMENTS = 2u;

fn value_at(head: u32, word: u32) -> Value {
    return unpack2x16float(values[head + word]);
}

fn element(value: Value, i: u32) -> f32 {
    return select(value.x, value.y, i == 1u);
}

fn column(word: u32, i: u32) -> u32 {
    return word * VALUE_ELEMENTS + i;
}
