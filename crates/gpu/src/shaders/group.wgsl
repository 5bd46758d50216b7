// Sorts choices by their experts, in one workgroup: the number of tiles, from word 4 on (expert, first, count, -) of each tile
// of up to 64 choices of one expert, and from `order` on the choices. From outside: EXPERTS.
struct P { used: u32, count: u32, order: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> choices: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> sorted: array<u32>;

const WG = 256u;
const SIDE = 64u;

var<workgroup> counts: array<atomic<u32>, EXPERTS>;

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lid: u32) {
    let all = step[0][p.count] * p.used;
    for (var e = lid; e < EXPERTS; e += WG) {
        atomicStore(&counts[e], 0u);
    }
    workgroupBarrier();
    for (var i = lid; i < all; i += WG) {
        atomicAdd(&counts[choices[i].x], 1u);
    }
    workgroupBarrier();
    if lid == 0u {
        var tile = 0u;
        var first = 0u;
        for (var e = 0u; e < EXPERTS; e++) {
            let count = atomicLoad(&counts[e]);
            for (var taken = 0u; taken < count; taken += SIDE) {
                let at = 4u + tile * 4u;
                sorted[at] = e;
                sorted[at + 1u] = first + taken;
                sorted[at + 2u] = min(count - taken, SIDE);
                tile += 1u;
            }
            // From here on it is the place of the expert's next choice.
            atomicStore(&counts[e], first);
            first += count;
        }
        sorted[0] = tile;
    }
    workgroupBarrier();
    for (var i = lid; i < all; i += WG) {
        let place = atomicAdd(&counts[choices[i].x], 1u);
        sorted[p.order + place] = i;
    }
}
