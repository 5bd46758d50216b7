// 16 weights from 32 bytes.
struct Packed { a: vec4<u32>, b: vec4<u32> }

fn packed(row: u32, run: u32) -> Packed {
    return Packed(weight[row + run * 2u], weight[row + run * 2u + 1u]);
}

fn values(w: Packed) -> mat4x4<f32> {
    return mat4x4<f32>(
        vec4<f32>(unpack2x16float(w.a.x), unpack2x16float(w.a.y)),
        vec4<f32>(unpack2x16float(w.a.z), unpack2x16float(w.a.w)),
        vec4<f32>(unpack2x16float(w.b.x), unpack2x16float(w.b.y)),
        vec4<f32>(unpack2x16float(w.b.z), unpack2x16float(w.b.w)),
    );
}

fn scaled(w: Packed, product: f32, inputs: f32) -> f32 {
    return product;
}

fn decoded(w: Packed) -> mat4x4<f32> {
    return values(w);
}

fn decode(row: u32, run: u32) -> mat4x4<f32> {
    return values(packed(row, run));
}
