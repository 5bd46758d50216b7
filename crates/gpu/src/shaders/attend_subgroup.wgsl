// The highest score of each query among 64 positions: within subgroups of whatever size, then over them.
struct Member {
    @builtin(local_invocation_index) lid: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
}

// Whether `share` reads `scores` last: there may be as many subgroups as invocations, and no room for them elsewhere.
const IN_SCORES = true;

fn share(s: ptr<function, array<f32, QUERIES>>, member: Member) -> array<vec4<f32>, FOURS> {
    for (var k = 0u; k < FOURS; k++) {
        let most = subgroupMax(four(s, k));
        if member.lane == 0u {
            scores[member.subgroup * FOURS + k] = most;
        }
    }
    workgroupBarrier();
    var highest: array<vec4<f32>, FOURS>;
    for (var k = 0u; k < FOURS; k++) {
        highest[k] = scores[k];
    }
    for (var i = 1u; i < member.subgroups; i++) {
        for (var k = 0u; k < FOURS; k++) {
            highest[k] = max(highest[k], scores[i * FOURS + k]);
        }
    }
    return highest;
}
