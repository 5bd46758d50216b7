// 4-bit codes of values in a table. From outside: `look_up`, which gives those of four codes, a byte each.
fn looked_up(scale: f32, words: vec4<u32>) -> Quants {
    return Quants(vec4<u32>(look_up(words.x), look_up(words.y), look_up(words.z), look_up(words.w)), scale, 0.0);
}
