// The best K of the best of all slices of a row, the best first: (value, place). Grid: 1, rows. From outside: WG, K, which is a
// power of two, `bar_of` and `reaches` (top).
struct P { width: u32, stride: u32, slices: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> best: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec2<u32>>;

// Workgroup memory begins as zeros: no element.
var<workgroup> taken: atomic<u32>;
var<workgroup> sorted: array<vec2<u32>, K>;
var<private> start: u32;

fn element(i: u32) -> vec2<u32> {
    return best[start + i];
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    start = group.y * p.slices * K;
    let total = p.slices * K;
    let bar = bar_of(total, min(K, p.width), lid);
    for (var i = lid; i < total; i += WG) {
        let e = element(i);
        if reaches(e, bar) {
            sorted[atomicAdd(&taken, 1u)] = e;
        }
    }
    // Batcher's bitonic sort: runs of twice the length, and every other one the other way round.
    for (var run = 2u; run <= K; run *= 2u) {
        for (var gap = run / 2u; gap > 0u; gap /= 2u) {
            workgroupBarrier();
            for (var i = lid; i < K / 2u; i += WG) {
                let a = i / gap * 2u * gap + i % gap;
                let b = a + gap;
                let x = sorted[a];
                let y = sorted[b];
                if reaches(y, x) == ((a & run) == 0u) {
                    sorted[a] = y;
                    sorted[b] = x;
                }
            }
        }
    }
    workgroupBarrier();
    for (var i = lid; i < K; i += WG) {
        let e = sorted[i];
        let bits = select(~e.x, e.x ^ 0x80000000u, e.x >= 0x80000000u);
        out[group.y * K + i] = vec2<u32>(bits, ~e.y);
    }
}
