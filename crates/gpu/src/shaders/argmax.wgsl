// The place of a row's greatest element, the first of equals. Grid: rows.
struct P { width: u32, stride: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

var<workgroup> best: array<f32, WG>;
var<workgroup> place: array<u32, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
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
    best[lid] = value;
    place[lid] = at;
    workgroupBarrier();
    for (var half = WG / 2u; half > 0u; half /= 2u) {
        if lid < half {
            let other = best[lid + half];
            let there = place[lid + half];
            if other > best[lid] || (other == best[lid] && there < place[lid]) {
                best[lid] = other;
                place[lid] = there;
            }
        }
        workgroupBarrier();
    }
    if lid == 0u {
        out[group.x] = place[0];
    }
}
