//! How faulty tokenizers cut a text: other algorithms over the same vocabulary, plain and slow. Nothing here is right;
//! the right way is the tokenizer's.

use super::scene::Scene;

/// How SPM spells a space.
pub(super) const SPACE: char = '\u{2581}';

/// No token that is looked for is longer, in bytes.
const LONGEST: usize = 64;

/// Longer texts are not merged here: it takes quadratic time.
const MERGED_BYTES: usize = 1 << 14;

/// The character that stands for a byte in BPE vocabularies (Radford et al. 2019, `bytes_to_unicode`).
pub(super) fn character(byte: u8) -> char {
    let prints = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if prints(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&byte| !prints(byte)).count() as u32;
    char::from_u32(256 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// A text as the vocabulary spells it, without a space in front.
pub(super) fn spelled(scene: &Scene<'_>, text: &str) -> String {
    if scene.is_spm() { text.replace(' ', "\u{2581}") } else { text.bytes().map(character).collect() }
}

/// The longest token first, from the left.
pub(super) fn greedy(scene: &Scene<'_>, spelled: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    let mut rest = spelled;
    while let Some(first) = rest.chars().next() {
        let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|&end| end <= LONGEST);
        let found = ends.filter_map(|end| scene.plain_id(&rest[..end]).map(|id| (end, id))).last();
        let end = match found {
            Some((end, id)) => {
                ids.push(id);
                end
            }
            None => {
                unspellable(scene, first, &mut ids);
                first.len_utf8()
            }
        };
        rest = &rest[end..];
    }
    ids
}

/// One token for each character.
pub(super) fn singly(scene: &Scene<'_>, spelled: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    for c in spelled.chars() {
        match scene.plain_id(c.encode_utf8(&mut [0; 4])) {
            Some(id) => ids.push(id),
            None => unspellable(scene, c, &mut ids),
        }
    }
    ids
}

/// One byte token for each byte of the text, where the vocabulary has them.
pub(super) fn bytewise(scene: &Scene<'_>, text: &str) -> Option<Vec<u32>> {
    text.bytes().map(|byte| scene.tokenizer.id(&format!("<0x{byte:02X}>"))).collect()
}

/// The cut with the greatest sum of scores (Kudo 2018), which is what scores mean to a unigram model.
pub(super) fn unigram(scene: &Scene<'_>, spelled: &str) -> Option<Vec<u32>> {
    /// Score of a character that no token spells.
    const STRANGER: f64 = -1e6;
    let scores = scene.metadata().f32s("tokenizer.ggml.scores").ok().flatten()?;
    let mut best: Vec<Option<(f64, usize, Option<u32>)>> = vec![None; spelled.len() + 1];
    best[0] = Some((0.0, 0, None));
    for (start, first) in spelled.char_indices() {
        let Some((reached, ..)) = best[start] else { continue };
        let rest = &spelled[start..];
        for end in rest.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|&end| end <= LONGEST) {
            let found = scene.plain_id(&rest[..end]);
            let score = match found {
                Some(id) => scores.get(id as usize).map_or(STRANGER, |&score| f64::from(score)),
                None if end == first.len_utf8() => STRANGER,
                None => continue,
            };
            let total = reached + score;
            if best[start + end].is_none_or(|(known, ..)| total > known) {
                best[start + end] = Some((total, start, found));
            }
        }
    }
    let mut parts = Vec::new();
    let mut end = spelled.len();
    while end > 0 {
        let (_, start, found) = best[end]?;
        parts.push((&spelled[start..end], found));
        end = start;
    }
    let mut ids = Vec::new();
    for (text, found) in parts.into_iter().rev() {
        match found {
            Some(id) => ids.push(id),
            None => text.chars().for_each(|c| unspellable(scene, c, &mut ids)),
        }
    }
    Some(ids)
}

/// BPE's merges over a whole text, not over its words.
pub(super) fn merged(scene: &Scene<'_>, spelled: &str) -> Option<Vec<u32>> {
    if spelled.len() > MERGED_BYTES {
        return None;
    }
    let ranks = scene.ranks();
    let mut symbols: Vec<&str> = spelled.char_indices().map(|(at, c)| &spelled[at..at + c.len_utf8()]).collect();
    let rank = |left: &str, right: &str| ranks.get(&format!("{left} {right}")).copied().unwrap_or(usize::MAX);
    let mut pairs: Vec<usize> = symbols.windows(2).map(|pair| rank(pair[0], pair[1])).collect();
    let mut start = 0;
    let mut starts: Vec<usize> = Vec::with_capacity(symbols.len());
    for symbol in &symbols {
        starts.push(start);
        start += symbol.len();
    }
    while let Some((at, &lowest)) = pairs.iter().enumerate().min_by_key(|&(at, &rank)| (rank, at)) {
        if lowest == usize::MAX {
            break;
        }
        symbols[at] = &spelled[starts[at]..starts[at + 1] + symbols[at + 1].len()];
        symbols.remove(at + 1);
        starts.remove(at + 1);
        pairs.remove(at);
        if at < pairs.len() {
            pairs[at] = rank(symbols[at], symbols[at + 1]);
        }
        if at > 0 {
            pairs[at - 1] = rank(symbols[at - 1], symbols[at]);
        }
    }
    let mut ids = Vec::new();
    for symbol in symbols {
        match scene.tokenizer.id(symbol) {
            Some(id) => ids.push(id),
            None => symbol.chars().for_each(|c| unspellable(scene, c, &mut ids)),
        }
    }
    Some(ids)
}

/// The byte tokens of a character, or the unknown token.
fn unspellable(scene: &Scene<'_>, c: char, ids: &mut Vec<u32>) {
    let bytes = bytewise(scene, c.encode_utf8(&mut [0; 4]));
    match bytes {
        Some(bytes) => ids.extend(bytes),
        None => ids.extend(scene.tokenizer.unk()),
    }
}
