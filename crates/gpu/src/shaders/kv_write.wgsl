// Rows of keys and values into the cache. Grid: (heads * pieces / 64, rows, sides). From outside: `write` (cache/write).
struct P {
    heads: u32,
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
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> k: array<f32>;
@group(0) @binding(3) var<storage, read> v: array<f32>;
@group(0) @binding(4) var<storage, read_write> keys: array<u32>;
@group(0) @binding(5) var<storage, read_write> values: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let pieces = pieces_of(id.z);
    if pieces > 0u && id.x < p.heads * pieces {
        write(id.z, id.x / pieces, id.x % pieces, id.y);
    }
}
