// Where a position of a sequence is among the places of a head: in its pages, which are told behind all heads, or in a run of
// its own.
fn place_of(sequence: u32, position: u32) -> u32 {
    if PAGED {
        let entry = sequence * (p.kept / PAGE) + position / PAGE;
        return keys[p.kv_heads * p.places * p.key_stride + entry / 4u][entry % 4u] * PAGE + position % PAGE;
    }
    return sequence * p.kept + position % p.kept;
}
