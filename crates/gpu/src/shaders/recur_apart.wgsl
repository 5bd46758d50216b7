// Queries, keys and what the state fades by in buffers of their own; nothing is erased.
@group(0) @binding(5) var<storage, read> q: array<f32>;
@group(0) @binding(6) var<storage, read> k: array<f32>;
@group(0) @binding(7) var<storage, read> fade: array<f32>;

fn query_at(row: u32, i: u32) -> f32 {
    return q[row * p.key_stride + i];
}

fn key_at(row: u32, i: u32) -> f32 {
    return k[row * p.key_stride + i];
}

fn fade_at(row: u32, i: u32) -> f32 {
    return fade[row * p.fade_stride + i];
}

fn erase_at(row: u32, i: u32) -> f32 {
    return 0.0;
}

fn back_at(row: u32, i: u32) -> f32 {
    return 0.0;
}
