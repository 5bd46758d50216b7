// Queries, keys, what the state fades by, what is read from it and what is added for that: side by side in one buffer.
@group(0) @binding(5) var<storage, read> inputs: array<f32>;

fn query_at(row: u32, i: u32) -> f32 {
    return inputs[row * p.key_stride + i];
}

fn key_at(row: u32, i: u32) -> f32 {
    return inputs[row * p.key_stride + p.k_at + i];
}

fn fade_at(row: u32, i: u32) -> f32 {
    return inputs[row * p.key_stride + p.fade_at + i];
}

fn erase_at(row: u32, i: u32) -> f32 {
    return inputs[row * p.key_stride + p.a_at + i];
}

fn back_at(row: u32, i: u32) -> f32 {
    return inputs[row * p.key_stride + p.b_at + i];
}
