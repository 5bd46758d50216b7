// The place of a row's greatest element, the first of equals. Grid: rows.
// From outside: WG, `highest` (reduce_plain or reduce_subgroup).
struct P { width: u32, stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

var<workgroup> place: atomic<u32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, member: Member) {
    let lid = member.lid;
    let row = group.x * p.stride;
    var at = min(lid, p.width - 1u);
    var value = x[row + at];
    for (var i = lid + WG; i < p.width; i += WG) {
        let other = x[row + i];
        if other > value {
            value = other;
            at = i;
        }
    }
    if lid == 0u {
        atomicStore(&place, p.width - 1u);
    }
    // Its barriers come between the store above and the others' turn.
    let most = highest(value, member);
    if value == most {
        atomicMin(&place, at);
    }
    workgroupBarrier();
    if lid == 0u {
        out[group.x] = atomicLoad(&place);
    }
}
