// What a workgroup of WG invocations has in common, for all of them: through workgroup memory.
struct Member { @builtin(local_invocation_index) lid: u32 }

var<workgroup> values: array<f32, WG>;

fn total(value: f32, member: Member) -> f32 {
    let lid = member.lid;
    workgroupBarrier();
    values[lid] = value;
    workgroupBarrier();
    for (var half = WG / 2u; half > 0u; half /= 2u) {
        if lid < half {
            values[lid] += values[lid + half];
        }
        workgroupBarrier();
    }
    return values[0];
}

fn highest(value: f32, member: Member) -> f32 {
    let lid = member.lid;
    workgroupBarrier();
    values[lid] = value;
    workgroupBarrier();
    for (var half = WG / 2u; half > 0u; half /= 2u) {
        if lid < half {
            values[lid] = max(values[lid], values[lid + half]);
        }
        workgroupBarrier();
    }
    return values[0];
}
