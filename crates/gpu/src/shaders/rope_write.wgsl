// Rotary embedding of queries and keys, in place, and rows of keys and values into the cache. A workgroup has a head of a row.
// Grid: (query heads + key heads + value heads, rows). From outside: `high_product` and `turn` (turn), `write` (cache/write).
struct P {
    heads: u32, // of keys and of values
    kept: u32, // places of a sequence
    places: u32, // of all sequences, for each head
    key_dim: u32,
    value_dim: u32,
    key_words: u32, // from key to key
    value_words: u32, // from value to value
    key_pieces: u32, // of a head, that an invocation writes at once
    value_pieces: u32,
    k_stride: u32,
    v_stride: u32,
    q_heads: u32,
    q_stride: u32,
    pairs: u32,
    spread: u32,
    gap: u32,
    magnitude: f32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> k: array<f32>;
@group(0) @binding(3) var<storage, read> v: array<f32>;
@group(0) @binding(4) var<storage, read_write> keys: array<u32>;
@group(0) @binding(5) var<storage, read_write> values: array<u32>;
@group(0) @binding(6) var<storage, read> table: array<vec2<u32>>;
@group(0) @binding(7) var<storage, read_write> q: array<f32>;

const WG = 64u;

// (cos, sin) of a pair's angle at a position, stretched.
fn angle(position: u32, pair: u32) -> vec2<f32> {
    let frequency = table[pair];
    return turn(high_product(position, frequency.x) + position * frequency.y) * p.magnitude;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let row = group.y;
    let position = step[row + 1u].y;
    if group.x < p.q_heads {
        let head = row * p.q_stride + group.x * p.key_dim;
        for (var pair = lid; pair < p.pairs; pair += WG) {
            let t = angle(position, pair);
            let i = head + pair * p.spread;
            let j = i + p.gap;
            let a = q[i];
            let b = q[j];
            q[i] = a * t.x - b * t.y;
            q[j] = a * t.y + b * t.x;
        }
        return;
    }
    let side = (group.x - p.q_heads) / p.heads;
    let own = (group.x - p.q_heads) % p.heads;
    if side == 0u {
        let head = row * p.k_stride + own * p.key_dim;
        for (var pair = lid; pair < p.pairs; pair += WG) {
            let t = angle(position, pair);
            let i = head + pair * p.spread;
            let j = i + p.gap;
            let a = k[i];
            let b = k[j];
            k[i] = a * t.x - b * t.y;
            k[j] = a * t.y + b * t.x;
        }
    }
    // Invocations write what others have turned.
    storageBarrier();
    for (var piece = lid; piece < pieces_of(side); piece += WG) {
        write(side, own, piece, row);
    }
}
