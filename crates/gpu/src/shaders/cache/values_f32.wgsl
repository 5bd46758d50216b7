// The element of a word.
alias Value = f32;
const VALUE_ELEMENTS = 1u;

fn value_of(word: u32) -> Value {
    return bitcast<f32>(word);
}

fn element(value: Value, i: u32) -> f32 {
    return value;
}
