// A word of the cache holds two halves.
const PER_WORD = 2u;

fn pack(elements: vec2<f32>) -> u32 {
    return half(elements.x) | (half(elements.y) << 16u);
}
