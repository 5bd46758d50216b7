// Sums within subgroups of whatever size, and then over them through workgroup memory.
var<workgroup> partial: array<f32, SUMS * WG>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let work = assigned(group, groups);
    if is_idle(work) {
        return;
    }
    var sums = products(work, lid);
    for (var i = 0u; i < SUMS; i++) {
        let sum = subgroupAdd(sums[i]);
        if lane == 0u {
            partial[i * WG + subgroup] = sum;
        }
    }
    workgroupBarrier();
    if lid < SUMS {
        var sum = 0.0;
        for (var j = 0u; j < subgroups; j++) {
            sum += partial[lid * WG + j];
        }
        store(work, lid, sum);
    }
}
