// Causal convolution of each column along its sequence. Grid: (width / 64, rows). From outside: `earlier` (conv_past).
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> w: array<f32>;
@group(0) @binding(3) var<storage, read> state: array<f32>;
@group(0) @binding(4) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < p.width {
        var sum = 0.0;
        for (var tap = 0u; tap < p.taps; tap++) {
            sum += w[id.x * p.w_stride + tap] * earlier(id.y, id.x, p.taps - 1u - tap);
        }
        out[id.y * p.out_stride + id.x] = sum;
    }
}
