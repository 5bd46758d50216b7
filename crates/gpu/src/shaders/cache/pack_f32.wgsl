// A word of the cache holds one element.
const PER_WORD = 1u;

fn pack(elements: vec2<f32>) -> u32 {
    return bitcast<u32>(elements.x);
}
