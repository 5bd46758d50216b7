// The two elements of a word.
alias Value = vec2<f32>;
const VALUE_ELEMENTS = 2u;

fn value_of(word: u32) -> Value {
    return unpack2x16float(word);
}

fn element(value: Value, i: u32) -> f32 {
    return select(value.x, value.y, i == 1u);
}
