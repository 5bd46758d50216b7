// A head's piece of a row of keys (side 0) or values (side 1) into the cache, [head][place][words]: a word of numbers, or a block
// of 32 quants, whose scales lie behind the head's quants, a word with a half each. From outside: `p`, `k`, `v`, `keys`, `values`,
// KEYS and VALUES (their formats, of those below), `half`, `place_of`.
const F32 = 0u;
const F16 = 1u;
const Q8_0 = 2u;
const Q4_0 = 3u;

fn pieces_of(side: u32) -> u32 {
    return select(p.value_pieces, p.key_pieces, side == 0u);
}

fn given(side: u32, at: u32) -> f32 {
    if side == 0u {
        return k[at];
    }
    return v[at];
}

fn put(side: u32, at: u32, word: u32) {
    if side == 0u {
        keys[at] = word;
    } else {
        values[at] = word;
    }
}

fn write(side: u32, head: u32, piece: u32, row: u32) {
    let is_key = side == 0u;
    let dim = select(p.value_dim, p.key_dim, is_key);
    let words = select(p.value_words, p.key_words, is_key);
    let start = row * select(p.v_stride, p.k_stride, is_key) + head * dim;
    let place = step[row + 1u];
    let to = (head * p.places + place_of(place.z, place.y)) * words;
    let format = select(VALUES, KEYS, is_key);
    if format == F32 {
        if piece < dim {
            put(side, to + piece, bitcast<u32>(given(side, start + piece)));
        }
    } else if format == F16 {
        let element = 2u * piece;
        if element < dim {
            let second = select(0.0, given(side, start + element + 1u), element + 1u < dim);
            put(side, to + piece, half(given(side, start + element)) | (half(second) << 16u));
        }
    } else if format == Q8_0 {
        write_q8_0(side, start + piece * 32u, to + piece * 8u, to + dim / 4u + piece);
    } else {
        write_q4_0(side, start + piece * 32u, to + piece * 4u, to + dim / 8u + piece);
    }
}

// To the nearest, halves away from zero.
fn signed_byte(value: f32) -> u32 {
    let size = abs(value);
    let whole = floor(size);
    let rounded = i32(select(whole, whole + 1.0, size - whole >= 0.5));
    return u32(select(rounded, -rounded, value < 0.0)) & 255u;
}

fn write_q8_0(side: u32, start: u32, to: u32, scale: u32) {
    var most = 0.0;
    for (var i = 0u; i < 32u; i++) {
        most = max(most, abs(given(side, start + i)));
    }
    let d = most / 127.0;
    let inverse = select(0.0, 1.0 / d, d > 0.0);
    for (var i = 0u; i < 8u; i++) {
        let four = start + i * 4u;
        put(side, to + i, signed_byte(given(side, four) * inverse)
            | (signed_byte(given(side, four + 1u) * inverse) << 8u)
            | (signed_byte(given(side, four + 2u) * inverse) << 16u)
            | (signed_byte(given(side, four + 3u) * inverse) << 24u));
    }
    put(side, scale, half(d));
}

// From -8, which the extreme becomes, to 7, as 0 to 15: to the nearest, halves upwards.
fn nibble(value: f32) -> u32 {
    return u32(clamp(floor(value + 8.5), 0.0, 15.0));
}

fn write_q4_0(side: u32, start: u32, to: u32, scale: u32) {
    var extreme = 0.0;
    for (var i = 0u; i < 32u; i++) {
        let value = given(side, start + i);
        extreme = select(extreme, value, abs(value) > abs(extreme));
    }
    let d = extreme / -8.0;
    let inverse = select(0.0, 1.0 / d, d != 0.0);
    for (var i = 0u; i < 4u; i++) {
        var word = 0u;
        for (var j = 0u; j < 4u; j++) {
            let low = start + i * 4u + j;
            let byte = nibble(given(side, low) * inverse) | (nibble(given(side, low + 16u) * inverse) << 4u);
            word |= byte << (8u * j);
        }
        put(side, to + i, word);
    }
    put(side, scale, half(d));
}
