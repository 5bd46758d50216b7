// The highest score of each query among 64 positions: through workgroup memory.
struct Member { @builtin(local_invocation_index) lid: u32 }

const PARTS = 4u;
// Whether `highest` reads `scores`.
const IN_SCORES = false;

var<workgroup> parts: array<f32, QUERIES * PARTS>;

fn share(s: ptr<function, array<f32, QUERIES>>, member: Member) {
    for (var n = 0u; n < QUERIES; n++) {
        scores[n * WG + member.lid] = (*s)[n];
    }
    workgroupBarrier();
    if member.lid < QUERIES * PARTS {
        var most = LOWEST;
        for (var i = 0u; i < WG / PARTS; i++) {
            most = max(most, scores[member.lid * (WG / PARTS) + i]);
        }
        parts[member.lid] = most;
    }
    workgroupBarrier();
}

fn highest(n: u32, member: Member) -> f32 {
    var most = LOWEST;
    for (var i = 0u; i < PARTS; i++) {
        most = max(most, parts[n * PARTS + i]);
    }
    return most;
}
