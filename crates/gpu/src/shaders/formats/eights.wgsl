// Points of eight coordinates.
@group(0) @binding(7) var<storage, read> book: array<vec2<u32>>;

// Two of them, with eight signs each.
fn pointed(scale: f32, points: vec2<u32>, signs: vec2<u32>) -> Quants {
    let a = book[points.x];
    let b = book[points.y];
    let bytes = vec4<u32>(
        signed(a.x, signs.x),
        signed(a.y, signs.x >> 4u),
        signed(b.x, signs.y),
        signed(b.y, signs.y >> 4u),
    );
    return Quants(bytes, scale, 0.0);
}
