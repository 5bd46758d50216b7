// The best K elements of a slice of a row, in any order, and none where the slice has fewer. Grid: slices, rows.
// From outside: WG, K, SLICE, `bar_of` and `reaches` (top).
struct P { width: u32, stride: u32, slices: u32 }
@group(0) @binding(0) var<uniform> p: P;
// Bits and not numbers, which a device may change on their way.
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> best: array<vec2<u32>>;

// Workgroup memory begins as zeros.
var<workgroup> taken: atomic<u32>;
// The slice's first element: in `x`, and in its row.
var<private> start: vec2<u32>;

// Ranks are in the order of values: infinity is the largest number, and what is no number comes before all numbers.
fn element(i: u32) -> vec2<u32> {
    let bits = x[start.x + i];
    let is_number = (bits & 0x7fffffffu) <= 0x7f800000u;
    let ordered = select(bits ^ 0x80000000u, ~bits, bits >= 0x80000000u);
    return vec2<u32>(select(0xffffffffu, min(ordered, 0xff7fffffu), is_number), ~(start.y + i));
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let first = group.x * SLICE;
    start = vec2<u32>(group.y * p.stride + first, first);
    let total = min(p.width - first, SLICE);
    let wanted = min(K, total);
    let bar = bar_of(total, wanted, lid);
    let out = (group.y * p.slices + group.x) * K;
    for (var i = lid; i < total; i += WG) {
        let e = element(i);
        if reaches(e, bar) {
            best[out + atomicAdd(&taken, 1u)] = e;
        }
    }
    for (var i = wanted + lid; i < K; i += WG) {
        best[out + i] = vec2<u32>(0u);
    }
}
