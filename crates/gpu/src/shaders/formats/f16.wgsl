// 16 weights from 32 bytes.
fn decode(row: u32, run: u32) -> mat4x4<f32> {
    let a = weight[row + run * 2u];
    let b = weight[row + run * 2u + 1u];
    return mat4x4<f32>(
        vec4<f32>(unpack2x16float(a.x), unpack2x16float(a.y)),
        vec4<f32>(unpack2x16float(a.z), unpack2x16float(a.w)),
        vec4<f32>(unpack2x16float(b.x), unpack2x16float(b.y)),
        vec4<f32>(unpack2x16float(b.z), unpack2x16float(b.w)),
    );
}
