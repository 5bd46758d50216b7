// A tile of 64 rows of inputs by 64 rows of the matrix, 32 columns at a time through workgroup memory; each of the 256
// invocations sums 4 x 4. Grid: (rows of the matrix / 64, rows of inputs / 64). From outside: ADD.
struct P { runs: u32, stride: u32, tails: u32, rows: u32, first: u32, x_stride: u32, out_stride: u32, count: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

var<workgroup> tile_w: array<f32, 2048>; // [32][64]
var<workgroup> tile_x: array<f32, 2048>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let inputs = step[0][p.count];
    let first_row = group.x * 64u;
    let first_x = group.y * 64u;
    // The first half of the invocations loads weights, the second inputs: a run of 16 each.
    let line = lid & 63u;
    let side = (lid >> 6u) & 1u;
    let loads_w = lid < 128u;
    let row = min(first_row + line, p.rows - 1u) * p.stride;
    let input = min(first_x + line, inputs - 1u) * p.x_stride;
    let i = (lid & 15u) * 4u;
    let j = (lid >> 4u) * 4u;
    var sums: array<vec4<f32>, 4>;
    for (var k = 0u; k < p.runs; k += 2u) {
        let run = k + side;
        var values: mat4x4<f32>;
        if run < p.runs {
            if loads_w {
                values = decode(row, run);
            } else {
                let at = input + run * 4u;
                values = mat4x4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
            }
        }
        workgroupBarrier();
        for (var c = 0u; c < 16u; c++) {
            let at = (side * 16u + c) * 64u + line;
            if loads_w {
                tile_w[at] = values[c >> 2u][c & 3u];
            } else {
                tile_x[at] = values[c >> 2u][c & 3u];
            }
        }
        workgroupBarrier();
        for (var c = 0u; c < 32u; c++) {
            let a = c * 64u + i;
            let b = c * 64u + j;
            let w = vec4<f32>(tile_w[a], tile_w[a + 1u], tile_w[a + 2u], tile_w[a + 3u]);
            sums[0] += tile_x[b] * w;
            sums[1] += tile_x[b + 1u] * w;
            sums[2] += tile_x[b + 2u] * w;
            sums[3] += tile_x[b + 3u] * w;
        }
    }
    for (var t = 0u; t < 4u; t++) {
        for (var r = 0u; r < 4u; r++) {
            if first_x + j + t < inputs && first_row + i + r < p.rows {
                let at = (first_x + j + t) * p.out_stride + p.first + first_row + i + r;
                if ADD {
                    out[at] += sums[t][r];
                } else {
                    out[at] = sums[t][r];
                }
            }
        }
    }
}
