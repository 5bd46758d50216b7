// The highest score of each query among 64 positions: through workgroup memory.
struct Member { @builtin(local_invocation_index) lid: u32 }

const PARTS = 4u;
// Whether `share` reads `scores` last.
const IN_SCORES = false;

var<workgroup> parts: array<vec4<f32>, FOURS * PARTS>;

fn share(s: ptr<function, array<f32, QUERIES>>, member: Member) -> array<vec4<f32>, FOURS> {
    for (var k = 0u; k < FOURS; k++) {
        scores[member.lid * FOURS + k] = four(s, k);
    }
    workgroupBarrier();
    if member.lid < FOURS * PARTS {
        var most = vec4<f32>(LOWEST);
        let first = member.lid / FOURS * (WG / PARTS);
        for (var i = 0u; i < WG / PARTS; i++) {
            most = max(most, scores[(first + i) * FOURS + member.lid % FOURS]);
        }
        parts[member.lid] = most;
    }
    workgroupBarrier();
    var highest: array<vec4<f32>, FOURS>;
    for (var k = 0u; k < FOURS; k++) {
        highest[k] = max(max(parts[k], parts[FOURS + k]), max(parts[2u * FOURS + k], parts[3u * FOURS + k]));
    }
    return highest;
}
