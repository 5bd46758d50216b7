// 16 weights from 64 bytes.
alias Packed = mat4x4<f32>;

fn packed(row: u32, run: u32) -> Packed {
    let at = row + run * 4u;
    return mat4x4<f32>(
        bitcast<vec4<f32>>(weight[at]),
        bitcast<vec4<f32>>(weight[at + 1u]),
        bitcast<vec4<f32>>(weight[at + 2u]),
        bitcast<vec4<f32>>(weight[at + 3u]),
    );
}

fn values(w: Packed) -> mat4x4<f32> {
    return w;
}

fn scaled(w: Packed, product: f32, inputs: f32) -> f32 {
    return product;
}

fn decoded(w: Packed) -> mat4x4<f32> {
    return values(w);
}

fn decode(row: u32, run: u32) -> mat4x4<f32> {
    return packed(row, run);
}
