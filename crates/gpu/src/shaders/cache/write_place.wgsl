// Where a position of a sequence is among the places of a head: in its pages, which are told behind all heads, or in a run of
// its own.
fn place_of(sequence: u32, position: u32) -> u32 {
    if PAGED {
        let table = p.heads * p.places * p.key_words + sequence * (p.kept / PAGE);
        return keys[table + position / PAGE] * PAGE + position % PAGE;
    }
    return sequence * p.kept + position % p.kept;
}
