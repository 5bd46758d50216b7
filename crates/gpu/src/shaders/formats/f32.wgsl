// 16 weights from 64 bytes.
fn decode(row: u32, run: u32) -> mat4x4<f32> {
    let at = row + run * 4u;
    return mat4x4<f32>(
        bitcast<vec4<f32>>(weight[at]),
        bitcast<vec4<f32>>(weight[at + 1u]),
        bitcast<vec4<f32>>(weight[at + 2u]),
        bitcast<vec4<f32>>(weight[at + 3u]),
    );
}
