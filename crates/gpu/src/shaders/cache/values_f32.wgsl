// The element of a word.
alias Value = f32;
const VALUE_ELEMENTS = 1u;

fn value_at(head: u32, word: u32) -> Value {
    return bitcast<f32>(values[head + word]);
}

fn element(value: Value, i: u32) -> f32 {
    return value;
}

fn column(word: u32, i: u32) -> u32 {
    return word * VALUE_ELEMENTS + i;
}
