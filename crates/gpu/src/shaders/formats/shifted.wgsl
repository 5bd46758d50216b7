// Ternary points of eight coordinates, all shifted by an eighth up or, where a bit is set, down.
@group(0) @binding(7) var<storage, read> book: array<vec2<u32>>;

// Two of them, each with the bit that its shift is told by, times eight.
fn shifted(scale: f32, points: vec2<u32>, down: vec2<bool>) -> Quants {
    let a = eighths(book[points.x], down.x);
    let b = eighths(book[points.y], down.y);
    return Quants(vec4<u32>(a, b), 0.125 * scale, 0.0);
}

// Eight times -1, 0 and 1, and one more or less: as signed bytes, which their upper bits keep apart.
fn eighths(point: vec2<u32>, down: bool) -> vec2<u32> {
    let eights = (point << vec2<u32>(3u)) & vec2<u32>(0xf8f8f8f8u);
    let shift = vec2<u32>(select(0x01010101u, 0xfefefeffu, down));
    return ((eights ^ vec2<u32>(0x80808080u)) + shift) ^ vec2<u32>(0x80808080u);
}
