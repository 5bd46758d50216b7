// Sums through workgroup memory; a row of it is one longer than the workgroup, so that banks differ.
var<workgroup> partial: array<f32, SUMS * (WG + 1)>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let work = assigned(group, groups);
    if is_idle(work) {
        return;
    }
    var sums = products(work, lid);
    for (var i = 0u; i < SUMS; i++) {
        partial[i * (WG + 1u) + lid] = sums[i];
    }
    workgroupBarrier();
    if lid < SUMS {
        var sum = 0.0;
        for (var j = 0u; j < WG; j++) {
            sum += partial[lid * (WG + 1u) + j];
        }
        store(work, lid, sum);
    }
}
