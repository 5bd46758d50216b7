// The sum over a workgroup of WG invocations, for all of them.
var<workgroup> sums: array<f32, WG>;

fn total(value: f32, lid: u32) -> f32 {
    sums[lid] = value;
    workgroupBarrier();
    for (var half = WG / 2u; half > 0u; half /= 2u) {
        if lid < half {
            sums[lid] += sums[lid + half];
        }
        workgroupBarrier();
    }
    return sums[0];
}
