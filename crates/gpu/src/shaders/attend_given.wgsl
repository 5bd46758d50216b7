// What attention works on, in either shader. From outside: ROWS, HEADS and LOWEST.
struct P {
    kv_heads: u32,
    group: u32, // query heads per key and value head
    key_dim: u32,
    value_dim: u32,
    key_stride: u32, // vec4s from key to key
    value_stride: u32, // words from value to value
    kept: u32, // places of a sequence
    places: u32, // of all sequences, for each head
    q_stride: u32,
    out_stride: u32,
    scale: f32,
    span: u32, // positions of a span, at least
    parts: u32, // spans at most, or one more
    splits: u32, // spans that there is room for
    reach: u32, // how far a row sees
    cap: f32,
    most: u32, // distance of the last score by distance
    first_row: u32, // of those of its kind, that this dispatch computes
    decoding: u32, // whether it is of rows that decode
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> keys: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> values: array<u32>;
@group(0) @binding(4) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

// Positions of each span of a row that sees `seen` of them.
fn span_of(seen: u32) -> u32 {
    return max(p.span, (1u << (32u - countLeadingZeros(max(seen, 2u) - 1u))) / p.parts);
}

// Where the part of a query of this span goes.
fn part_at(workgroup: vec3<u32>, n: u32, head: u32) -> u32 {
    let row = workgroup.z * ROWS + n / HEADS;
    return ((row * p.kv_heads * p.group + head) * p.splits + workgroup.x) * (p.value_dim + 2u);
}

fn query_element(head: u32, d: u32, row: u32) -> f32 {
    return select(0.0, q[row + head * p.key_dim + min(d, p.key_dim - 1u)] * p.scale, d < p.key_dim);
}
