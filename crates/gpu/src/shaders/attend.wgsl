// Attention of up to ROWS rows of one sequence, HEADS query heads of each, which all share a key and value head: over a
// span of positions, 64 at a time with a running softmax. Grid: (splits, key and value heads * tiles of query heads,
// rows / ROWS).
//
// What a row's positions are parted into follows from what it sees, so that it has the same bits beside any other rows:
// blocks begin at multiples of 64, and spans where the block does that the first seen position is in. Blocks and spans
// that a row sees nothing of, which others may need, change nothing of its sums. Products are added by `fma`: what a compiler
// may fuse or not, it fuses for one number of rows and not for another. From outside: ROWS, HEADS, CHUNKS
// (vec4s of a key), TOGETHER (of them that are fetched at once), WORDS (words of a value, or bytes, per invocation),
// SPLIT, what it works on (attend_given), the cache's formats, `place_of`, `share` (attend_plain or attend_subgroup), `seen`
// (the positions that a row sees, by its own and its sequence's end), `adjusted` (a score with what a layer does to it), `sink`
// and `round_out` (rounds_out, or nothing). Query n of a tile is head n % HEADS of row n / HEADS.
const WG = 64u;
const QUERIES = ROWS * HEADS;
const LOWEST = -3.0e38;
const FOURS = (QUERIES + 3u) / 4u;
const QUADS = CHUNKS * KEY_QUADS;

// A dot product in one order.
fn chained(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

var<workgroup> query: array<vec4<f32>, QUERIES * QUADS>;
// Of each position the scores of all queries, by fours; the last four may be filled up.
var<workgroup> scores: array<vec4<f32>, WG * FOURS>;
// Where the positions lie.
var<workgroup> seats: array<u32, WG>;

// Numbers of four queries.
fn four(s: ptr<function, array<f32, QUERIES>>, k: u32) -> vec4<f32> {
    let last = QUERIES - 1u;
    return vec4<f32>((*s)[4u * k], (*s)[min(4u * k + 1u, last)], (*s)[min(4u * k + 2u, last)], (*s)[min(4u * k + 3u, last)]);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, member: Member) {
    let lid = member.lid;
    let tiles = (p.group + HEADS - 1u) / HEADS;
    let kv_head = workgroup.y / tiles;
    let tile = (workgroup.y % tiles) * HEADS;
    let count = min(HEADS, p.group - tile);
    let first_head = kv_head * p.group + tile;
    // Rows of prompts come first, those that decode behind them.
    let is_decoding = p.decoding == 1u;
    let first_row = select(0u, step[0].x, is_decoding) + p.first_row + workgroup.z * ROWS;
    let end_row = select(step[0].x, step[0].z, is_decoding);
    let sequence = step[first_row + 1u].z;
    var rows = 1u;
    for (var t = 1u; t < ROWS; t++) {
        if rows == t && first_row + t < end_row && step[first_row + t + 1u].z == sequence {
            rows += 1u;
        }
    }
    // Positions of the span that each row sees, which may be none.
    var floors: array<u32, ROWS>;
    var limits: array<u32, ROWS>;
    var places: array<u32, ROWS>;
    var first = 0xffffffffu;
    var high = 0u;
    for (var t = 0u; t < ROWS; t++) {
        let row = first_row + min(t, rows - 1u);
        places[t] = step[row + 1u].y;
        let range = seen(places[t], step[step[0].z + row + 1u].x);
        let span = span_of(range.y - range.x);
        let low = range.x / WG * WG + workgroup.x * span;
        floors[t] = max(range.x, low);
        limits[t] = min(range.y, low + span);
        if floors[t] < limits[t] {
            first = min(first, floors[t]);
            high = max(high, limits[t]);
        }
    }
    if SPLIT && high == 0u {
        // No row sees anything of this span.
        for (var n = 0u; n < QUERIES; n++) {
            if n % HEADS < count && n / HEADS < rows {
                let at = part_at(workgroup, n, first_head + n % HEADS);
                for (var d = lid; d < p.value_dim + 2u; d += WG) {
                    out[at + d] = select(0.0, LOWEST, d == p.value_dim);
                }
            }
        }
        return;
    }
    let cache = kv_head * p.places;
    // Devices read constants of a dispatch anew in each round of a loop.
    let value_stride = p.value_stride;
    let value_dim = p.value_dim;

    for (var i = lid; i < QUERIES * QUADS; i += WG) {
        let n = i / QUADS;
        let head = first_head + min(n % HEADS, count - 1u);
        let d = (i % QUADS) * 4u;
        let row = (first_row + min(n / HEADS, rows - 1u)) * p.q_stride;
        query[i] = vec4<f32>(
            query_element(head, d, row),
            query_element(head, d + 1u, row),
            query_element(head, d + 2u, row),
            query_element(head, d + 3u, row),
        );
    }
    workgroupBarrier();

    var top: array<f32, QUERIES>;
    // Of an invocation's own positions, until the end.
    var sum: array<f32, QUERIES>;
    var acc: array<Value, QUERIES * WORDS>;
    for (var n = 0u; n < QUERIES; n++) {
        top[n] = LOWEST;
        if SINKS && workgroup.x == 0u {
            top[n] = sink(first_head + min(n % HEADS, count - 1u));
            if lid == 0u {
                sum[n] = 1.0;
            }
        }
    }
    for (var start = first / WG * WG; start < high; start += WG) {
        let position = start + lid;
        // Values beyond the ends are those at the ends, and count for nothing.
        let seat = cache + place_of(sequence, clamp(position, first, high - 1u));
        seats[lid] = seat;
        // Said, though the language means it: Chromium's compiler for Vulkan gives a variable its zeros before the first round alone.
        var s = array<f32, QUERIES>();
        if position >= first && position < high {
            let at = seat * p.key_stride;
            for (var first = 0u; first < CHUNKS; first += TOGETHER) {
                var key: array<vec4<u32>, TOGETHER>;
                for (var c = 0u; c < TOGETHER; c++) {
                    key[c] = keys[at + first + c];
                }
                for (var c = 0u; c < TOGETHER; c++) {
                    let scale = key_scale(at, first + c);
                    for (var n = 0u; n < QUERIES; n++) {
                        s[n] = fma(scale, key_dot(key[c], n * QUADS + (first + c) * KEY_QUADS), s[n]);
                    }
                }
            }
        }
        for (var n = 0u; n < QUERIES; n++) {
            let score = adjusted(s[n], first_head + n % HEADS, position, places[n / HEADS]);
            s[n] = select(LOWEST, score, position >= floors[n / HEADS] && position < limits[n / HEADS]);
        }
        var highest = share(&s, member);
        for (var n = 0u; n < QUERIES; n++) {
            let most = max(top[n], highest[n / 4u][n % 4u]);
            let factor = exp(top[n] - most);
            top[n] = most;
            for (var v = 0u; v < WORDS; v++) {
                acc[n * WORDS + v] *= factor;
            }
            s[n] = select(0.0, exp(s[n] - most), position >= floors[n / HEADS] && position < limits[n / HEADS]);
            sum[n] = fma(sum[n], factor, s[n]);
        }
        if IN_SCORES {
            workgroupBarrier();
        }
        for (var k = 0u; k < FOURS; k++) {
            scores[lid * FOURS + k] = four(&s, k);
        }
        workgroupBarrier();
        for (var i = (max(first, start) - start) / 4u * 4u; i < min(WG, high - start); i += 4u) {
            for (var v = 0u; v < WORDS; v++) {
                let word = lid + v * WG;
                if word * VALUE_ELEMENTS < value_dim {
                    var value: array<Value, 4>;
                    for (var e = 0u; e < 4u; e++) {
                        value[e] = value_at(seats[i + e] * value_stride, word);
                    }
                    for (var e = 0u; e < 4u; e++) {
                        for (var k = 0u; k < FOURS; k++) {
                            let score = scores[(i + e) * FOURS + k];
                            for (var j = 0u; j < 4u; j++) {
                                if 4u * k + j < QUERIES {
                                    let at = (4u * k + j) * WORDS + v;
                                    acc[at] = fma(Value(score[j]), value[e], acc[at]);
                                }
                            }
                        }
                    }
                }
            }
        }
        workgroupBarrier();
    }

    for (var k = 0u; k < FOURS; k++) {
        scores[lid * FOURS + k] = four(&sum, k);
    }
    workgroupBarrier();
    var sums: array<vec4<f32>, FOURS>;
    for (var i = 0u; i < WG; i++) {
        for (var k = 0u; k < FOURS; k++) {
            sums[k] += scores[i * FOURS + k];
        }
    }
    for (var n = 0u; n < QUERIES; n++) {
        if n % HEADS >= count || n / HEADS >= rows {
            continue;
        }
        let head = first_head + n % HEADS;
        let row = first_row + n / HEADS;
        var at = row * p.out_stride + head * p.value_dim;
        var factor = 1.0 / sums[n / 4u][n % 4u];
        if SPLIT {
            at = part_at(workgroup, n, head);
            factor = 1.0;
            if lid == 0u {
                out[at + p.value_dim] = top[n];
                out[at + p.value_dim + 1u] = sums[n / 4u][n % 4u];
            }
        }
        for (var v = 0u; v < WORDS; v++) {
            for (var e = 0u; e < VALUE_ELEMENTS; e++) {
                let d = column(lid + v * WG, e);
                if d < p.value_dim {
                    out[at + d] = element(acc[n * WORDS + v], e) * factor;
                }
            }
        }
    }
    for (var t = 0u; t < rows; t++) {
        round_out(first_row + t, p.out_stride, first_head * p.value_dim, count * p.value_dim, lid);
    }
}
