// The highest score of each query among 64 positions: within subgroups of whatever size, then over them.
struct Member {
    @builtin(local_invocation_index) lid: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
}

// Whether `highest` reads `scores`: there may be as many subgroups as invocations, and no room for them elsewhere.
const IN_SCORES = true;

fn share(s: ptr<function, array<f32, QUERIES>>, member: Member) {
    for (var n = 0u; n < QUERIES; n++) {
        let most = subgroupMax((*s)[n]);
        if member.lane == 0u {
            scores[n * WG + member.subgroup] = most;
        }
    }
    workgroupBarrier();
}

fn highest(n: u32, member: Member) -> f32 {
    var most = LOWEST;
    for (var i = 0u; i < member.subgroups; i++) {
        most = max(most, scores[n * WG + i]);
    }
    return most;
}
