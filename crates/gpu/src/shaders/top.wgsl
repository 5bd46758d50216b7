// The best elements of a list. An element is (rank, order): the greater rank is the better one, of equal ranks the greater
// order; no two are equal, but (0, 0), which is none and comes last. From outside: WG, which is 256, and `element`.

// How many elements that share the digits known so far have each next digit, a byte.
var<workgroup> counts: array<atomic<u32>, WG>;
// The same of 16 digits each.
var<workgroup> blocks: array<u32, 16>;
// The digit of the worst of the best; how many of these have it; whether all have it that share it.
var<workgroup> chosen: vec3<u32>;

fn reaches(element: vec2<u32>, bar: vec2<u32>) -> bool {
    return element.x > bar.x || (element.x == bar.x && element.y >= bar.y);
}

// What the best `wanted` of `total` elements reach, and no other: found digit by digit, the highest first. There must be as many,
// without those that are none, and one at least.
fn bar_of(total: u32, wanted: u32, lid: u32) -> vec2<u32> {
    var known = vec2<u32>(0u);
    var mask = vec2<u32>(0u);
    var missing = wanted;
    // No way out of the loop but its end: compilers must see that all invocations meet its barriers.
    var done = false;
    for (var digit = 0u; digit < 8u; digit++) {
        let in_rank = digit < 4u;
        let shift = 24u - 8u * (digit % 4u);
        atomicStore(&counts[lid], 0u);
        workgroupBarrier();
        for (var i = select(lid, total, done); i < total; i += WG) {
            let e = element(i);
            if all((e & mask) == known) {
                atomicAdd(&counts[(select(e.y, e.x, in_rank) >> shift) & 255u], 1u);
            }
        }
        workgroupBarrier();
        if lid < 16u {
            var sum = 0u;
            for (var d = 16u * lid; d < 16u * lid + 16u; d++) {
                sum += atomicLoad(&counts[d]);
            }
            blocks[lid] = sum;
        }
        workgroupBarrier();
        // Each invocation looks at a digit of its own: how many have a greater one?
        var above = 0u;
        for (var block = lid / 16u + 1u; block < 16u; block++) {
            above += blocks[block];
        }
        for (var d = lid + 1u; d % 16u != 0u; d++) {
            above += atomicLoad(&counts[d]);
        }
        let here = atomicLoad(&counts[lid]);
        if !done && above < missing && missing <= above + here {
            chosen = vec3<u32>(lid, missing - above, select(0u, 1u, missing == above + here));
        }
        let found = workgroupUniformLoad(&chosen);
        if !done {
            known |= select(vec2<u32>(0u, found.x), vec2<u32>(found.x, 0u), in_rank) << vec2<u32>(shift);
            mask |= select(vec2<u32>(0u, 255u), vec2<u32>(255u, 0u), in_rank) << vec2<u32>(shift);
            missing = found.y;
            done = found.z == 1u;
        }
    }
    return known;
}
