// Attention of prompts by cooperative matrices: QUERIES queries, which are HEADS query heads of up to ROWS rows of one sequence,
// over a span of positions, KEYS at a time. Grid: (splits, key and value heads * tiles of query heads, rows / ROWS).
//
// A matrix of sums can't be scaled row by row, so that there is no running softmax: positions are gone through twice, first for
// each query's highest score, then for the sums. Spans are those of attend.wgsl, blocks begin at multiples of KEYS, and what a
// row sees nothing of changes nothing of its sums. Each of STRIPS subgroups has BLOCK queries. Queries are the sums of two halves,
// since scores may be large; weights are halves, sums floats. From outside: WG, QUERIES, KEYS, ROWS, HEADS, KEY_DIM, VALUE_DIM,
// SPLIT, SINKS, what it works on (attend_given), `place_of`, `seen`, `adjusted`, `sink`, `Quad` and `clamped` (mat_mul_f16), and
// the matrices `Inputs`, `Weights` and `Sums` of BLOCK rows. A line below `//# NAME` stands as often as the name says, with its
// number: for each matrix of a key (OF_KEY) or a value (OF_VALUE), for each piece of a block's keys (OWN_KEYS) and values
// (OWN_VALUES) that an invocation fetches.
const LOWEST = -3.0e38;
const STRIPS = QUERIES / BLOCK;
// Invocations that share a query.
const SHARES = WG / QUERIES;
// Quads of a row of the tile, and two that keep the banks of neighbouring rows apart.
const LINE = max(KEY_DIM, VALUE_DIM) / 4u + 2u;
// Quads of a matrix's row.
const STEP = BLOCK / 4u;
// Numbers of a query's row of scores, and of weights.
const SCORES = KEYS + 4u;
const WEIGHTS = KEYS + 8u;
// `vec4`s of a block's keys, quads of its values.
const KEY_PIECES = KEYS * KEY_DIM / 8u;
const VALUE_PIECES = KEYS * VALUE_DIM / 4u;

// Queries, then keys, then values.
var<workgroup> tile: array<Quad, QUERIES * LINE>;
var<workgroup> scores: array<f32, QUERIES * SCORES>;
var<workgroup> weights: array<f16, QUERIES * WEIGHTS>;
// What a query's sums are multiplied by in the end.
var<workgroup> factors: array<f32, QUERIES>;

// The block that an invocation fetches from: positions beyond the ends are those at the ends, and count for nothing.
struct Block { cache: u32, sequence: u32, first: u32, high: u32 }

fn seat_of(block: Block, position: u32) -> u32 {
    return block.cache + place_of(block.sequence, clamp(position, block.first, block.high - 1u));
}

fn fetch_keys(block: Block, start: u32, piece: u32) -> vec4<u32> {
    let item = min(piece, KEY_PIECES - 1u);
    return keys[seat_of(block, start + item / (KEY_DIM / 8u)) * p.key_stride + item % (KEY_DIM / 8u)];
}

fn fetch_values(block: Block, start: u32, piece: u32) -> vec2<u32> {
    let item = min(piece, VALUE_PIECES - 1u);
    let at = seat_of(block, start + item / (VALUE_DIM / 4u)) * p.value_stride + item % (VALUE_DIM / 4u) * 2u;
    return vec2<u32>(values[at], values[at + 1u]);
}

fn halves(words: vec2<u32>) -> Quad {
    return Quad(vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y)));
}

fn lay_keys(item: u32, words: vec4<u32>) {
    if item < KEY_PIECES {
        let to = item / (KEY_DIM / 8u) * LINE + item % (KEY_DIM / 8u) * 2u;
        tile[to] = halves(words.xy);
        tile[to + 1u] = halves(words.zw);
    }
}

fn lay_values(item: u32, words: vec2<u32>) {
    if item < VALUE_PIECES {
        tile[item / (VALUE_DIM / 4u) * LINE + item % (VALUE_DIM / 4u)] = halves(words);
    }
}

struct Queries { first_head: u32, first_row: u32, count: u32, rows: u32 }

// Queries as halves, or what is then left of them.
fn lay_queries(given: Queries, lid: u32, rest: bool) {
    for (var i = lid; i < QUERIES * (KEY_DIM / 4u); i += WG) {
        let n = i / (KEY_DIM / 4u);
        let d = (i % (KEY_DIM / 4u)) * 4u;
        let head = given.first_head + min(n % HEADS, given.count - 1u);
        let row = (given.first_row + min(n / HEADS, given.rows - 1u)) * p.q_stride;
        let four = vec4<f32>(
            query_element(head, d, row),
            query_element(head, d + 1u, row),
            query_element(head, d + 2u, row),
            query_element(head, d + 3u, row),
        );
        let near = clamped(four);
        tile[n * LINE + d / 4u] = select(near, clamped(four - vec4<f32>(near)), vec4<bool>(rest));
    }
}

// Of a query: its head, its row's place, and the positions that it sees of the span.
struct Query { head: u32, place: u32, low: u32, high: u32 }

fn score_of(query: Query, n: u32, i: u32, position: u32) -> f32 {
    return adjusted(scores[n * SCORES + i], query.head, position, query.place);
}

// Stores the sums of matrix `j` of a value.
fn hand_out(workgroup: vec3<u32>, lid: u32, j: u32, first_head: u32, first_row: u32, count: u32, rows: u32) {
    for (var i = lid; i < QUERIES * BLOCK; i += WG) {
        let n = i / BLOCK;
        let d = j * BLOCK + i % BLOCK;
        let head = first_head + n % HEADS;
        if n % HEADS < count && n / HEADS < rows {
            var at = (first_row + n / HEADS) * p.out_stride + head * p.value_dim;
            if SPLIT {
                at = part_at(workgroup, n, head);
            }
            out[at + d] = scores[n * SCORES + i % BLOCK] * factors[n];
        }
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(subgroup_id) part: u32,
) {
    let tiles = (p.group + HEADS - 1u) / HEADS;
    let kv_head = workgroup.y / tiles;
    let tile_of_heads = (workgroup.y % tiles) * HEADS;
    let count = min(HEADS, p.group - tile_of_heads);
    let first_head = kv_head * p.group + tile_of_heads;
    let first_row = p.first_row + workgroup.z * ROWS;
    let sequence = step[first_row + 1u].z;
    var rows = 1u;
    for (var t = 1u; t < ROWS; t++) {
        if rows == t && first_row + t < step[0].x && step[first_row + t + 1u].z == sequence {
            rows += 1u;
        }
    }
    let n = lid / SHARES;
    var query = Query(first_head + min(n % HEADS, count - 1u), 0u, 0u, 0u);
    var first = 0xffffffffu;
    var high = 0u;
    for (var t = 0u; t < rows; t++) {
        let row = first_row + t;
        let place = step[row + 1u].y;
        let range = seen(place, step[step[0].z + row + 1u].x);
        let span = span_of(range.y - range.x);
        let low = range.x / 64u * 64u + workgroup.x * span;
        let floor = max(range.x, low);
        let limit = min(range.y, low + span);
        if floor < limit {
            first = min(first, floor);
            high = max(high, limit);
        }
        if n / HEADS == t && n % HEADS < count {
            query.place = place;
            query.low = floor;
            query.high = limit;
        }
    }
    if SPLIT && high == 0u {
        // No row sees anything of this span.
        for (var i = lid; i < rows * HEADS * (VALUE_DIM + 2u); i += WG) {
            let m = i / (VALUE_DIM + 2u);
            let d = i % (VALUE_DIM + 2u);
            if m % HEADS < count {
                out[part_at(workgroup, m, first_head + m % HEADS) + d] = select(0.0, LOWEST, d == VALUE_DIM);
            }
        }
        return;
    }

    // Where the queries of the subgroup begin. Those beyond the last strip only fetch.
    let strip = min(part, STRIPS - 1u) * BLOCK;
    let queries = Queries(first_head, first_row, count, rows);
    lay_queries(queries, lid, false);
    workgroupBarrier();
    //# OF_KEY
    let q# = coopLoadT<Inputs>(&tile[strip * LINE + #u * STEP], LINE);
    workgroupBarrier();
    lay_queries(queries, lid, true);
    workgroupBarrier();
    //# OF_KEY
    let rest# = coopLoadT<Inputs>(&tile[strip * LINE + #u * STEP], LINE);
    workgroupBarrier();

    // Where nothing is seen at all, position 0 is fetched.
    let block = Block(kv_head * p.places, sequence, min(first, max(high, 1u) - 1u), max(high, 1u));
    let begin = first / KEYS * KEYS;
    var top = LOWEST;
    //# OWN_KEYS
    var k# = fetch_keys(block, begin, lid + #u * WG);
    //# OWN_VALUES
    var v#: vec2<u32>;
    for (var start = begin; start < high; start += KEYS) {
        //# OWN_KEYS
        lay_keys(lid + #u * WG, k#);
        workgroupBarrier();
        //# OWN_KEYS
        k# = fetch_keys(block, start + KEYS, lid + #u * WG);
        if part < STRIPS {
            for (var c = 0u; c < KEYS; c += BLOCK) {
                var s: Sums;
                s = Sums();
                //# OF_KEY
                s = coopMultiplyAdd(q#, coopLoad<Weights>(&tile[c * LINE + #u * STEP], LINE), s);
                coopStoreT(s, &scores[strip * SCORES + c], SCORES);
            }
        }
        workgroupBarrier();
        for (var i = lid % SHARES; i < KEYS; i += SHARES) {
            let position = start + i;
            if position >= query.low && position < query.high {
                top = max(top, score_of(query, n, i, position));
            }
        }
    }
    workgroupBarrier();
    scores[lid] = top;
    workgroupBarrier();
    for (var i = 0u; i < SHARES; i++) {
        top = max(top, scores[n * SHARES + i]);
    }
    var sum = 0.0;
    if SINKS && workgroup.x == 0u {
        let score = sink(query.head);
        top = max(top, score);
        sum = select(0.0, exp(score - top), lid % SHARES == 0u);
    }
    workgroupBarrier();

    //# OF_VALUE
    var o#: Sums;
    //# OWN_KEYS
    k# = fetch_keys(block, begin, lid + #u * WG);
    for (var start = begin; start < high; start += KEYS) {
        //# OWN_KEYS
        lay_keys(lid + #u * WG, k#);
        workgroupBarrier();
        //# OWN_VALUES
        v# = fetch_values(block, start, lid + #u * WG);
        if part < STRIPS {
            for (var c = 0u; c < KEYS; c += BLOCK) {
                var s: Sums;
                s = Sums();
                //# OF_KEY
                s = coopMultiplyAdd(q#, coopLoad<Weights>(&tile[c * LINE + #u * STEP], LINE), s);
                //# OF_KEY
                s = coopMultiplyAdd(rest#, coopLoad<Weights>(&tile[c * LINE + #u * STEP], LINE), s);
                coopStoreT(s, &scores[strip * SCORES + c], SCORES);
            }
        }
        workgroupBarrier();
        //# OWN_VALUES
        lay_values(lid + #u * WG, v#);
        for (var i = lid % SHARES; i < KEYS; i += SHARES) {
            let position = start + i;
            var weight = 0.0;
            if position >= query.low && position < query.high {
                weight = exp(score_of(query, n, i, position) - top);
            }
            // The sum is of the weights as they are multiplied.
            let half = f16(weight);
            weights[n * WEIGHTS + i] = half;
            sum += f32(half);
        }
        workgroupBarrier();
        //# OWN_KEYS
        k# = fetch_keys(block, start + KEYS, lid + #u * WG);
        if part < STRIPS {
            for (var c = 0u; c < KEYS; c += BLOCK) {
                let w = coopLoadT<Inputs>(&weights[strip * WEIGHTS + c], WEIGHTS);
                //# OF_VALUE
                o# = coopMultiplyAdd(w, coopLoadT<Weights>(&tile[c * LINE + #u * STEP], LINE), o#);
            }
        }
        workgroupBarrier();
    }

    scores[lid] = sum;
    workgroupBarrier();
    sum = 0.0;
    for (var i = 0u; i < SHARES; i++) {
        sum += scores[n * SHARES + i];
    }
    if lid % SHARES == 0u {
        factors[n] = select(1.0 / sum, 1.0, SPLIT);
        if SPLIT && n % HEADS < count && n / HEADS < rows {
            let at = part_at(workgroup, n, query.head) + p.value_dim;
            out[at] = top;
            out[at + 1u] = sum;
        }
    }
    workgroupBarrier();
    //# OF_VALUE
    if part < STRIPS { coopStoreT(o#, &scores[strip * SCORES], SCORES); } workgroupBarrier(); hand_out(workgroup, lid, #u, first_head, first_row, count, rows); workgroupBarrier();
}
