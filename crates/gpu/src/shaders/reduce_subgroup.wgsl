// What a workgroup of WG invocations has in common, for all of them: within subgroups of whatever size, then over them.
struct Member {
    @builtin(local_invocation_index) lid: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
}

var<workgroup> values: array<f32, WG>;

fn total(value: f32, member: Member) -> f32 {
    let part = subgroupAdd(value);
    workgroupBarrier();
    if member.lane == 0u {
        values[member.subgroup] = part;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < member.subgroups; i++) {
        sum += values[i];
    }
    return sum;
}

fn highest(value: f32, member: Member) -> f32 {
    let part = subgroupMax(value);
    workgroupBarrier();
    if member.lane == 0u {
        values[member.subgroup] = part;
    }
    workgroupBarrier();
    var most = values[0];
    for (var i = 1u; i < member.subgroups; i++) {
        most = max(most, values[i]);
    }
    return most;
}
