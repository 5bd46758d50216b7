// Points of four coordinates.
@group(0) @binding(7) var<storage, read> book: array<u32>;

// Four of them, with eight signs for each two.
fn pointed(scale: f32, points: vec4<u32>, signs: vec2<u32>) -> Quants {
    let bytes = vec4<u32>(
        signed(book[points.x], signs.x),
        signed(book[points.y], signs.x >> 4u),
        signed(book[points.z], signs.y),
        signed(book[points.w], signs.y >> 4u),
    );
    return Quants(bytes, scale, 0.0);
}
