//! DRY's sequence breakers as tokens: which tokens hold a breaker's text, alone or with those that follow.

use std::collections::HashMap;

use super::Error;

/// Longest breaker that is looked at, in bytes, and longest tail, in tokens; both are llama.cpp's.
const MAX_BYTES: usize = 40;
const MAX_TAIL: usize = 20;

/// What the breakers need of a tokenizer.
pub struct Vocabulary<'a> {
    /// Number of tokens.
    pub tokens: usize,
    /// The text that a token decodes to by itself, control tokens by their names. A vocabulary that puts a space before
    /// a text takes it off again here, as at the start of any text.
    pub piece: &'a dyn Fn(u32) -> Vec<u8>,
    /// The tokens of a plain text, without BOS or EOS, and without reading control tokens in it.
    pub encode: &'a dyn Fn(&str) -> Vec<u32>,
}

/// By the first token of each occurrence of a breaker: the tokens that must follow it, possibly none.
#[derive(Clone, Debug, Default)]
pub(super) struct Breakers {
    tails: HashMap<u32, Vec<Vec<u32>>>,
}

impl Breakers {
    /// Finds the breakers' tokens. Empty breakers are left out.
    pub(super) fn find(breakers: &[String], vocabulary: Option<&Vocabulary<'_>>) -> Result<Self, Error> {
        let breakers: Vec<&[u8]> = breakers.iter().map(|text| cut(text)).filter(|text| !text.is_empty()).collect();
        let mut tails = HashMap::<u32, Vec<Vec<u32>>>::new();
        if breakers.is_empty() {
            return Ok(Self { tails });
        }
        let vocabulary = vocabulary.ok_or(Error::NoVocabulary)?;
        let ids = 0..u32::try_from(vocabulary.tokens).unwrap_or(u32::MAX);
        let pieces: Vec<Vec<u8>> = ids.clone().map(|id| (vocabulary.piece)(id)).collect();
        let mut encoded = HashMap::new();
        for (id, piece) in ids.zip(&pieces) {
            for breaker in &breakers {
                for held in overlaps(piece, breaker) {
                    let rest = &breaker[held..];
                    let tail = encoded.entry(rest).or_insert_with(|| encode(rest, vocabulary, &pieces));
                    let known = tails.entry(id).or_default();
                    if !known.contains(tail) {
                        known.push(tail.clone());
                    }
                }
            }
        }
        Ok(Self { tails })
    }

    /// Whether the token holds a whole breaker.
    pub(super) fn is_breaker(&self, id: u32) -> bool {
        self.tails.get(&id).is_some_and(|tails| tails.iter().any(Vec::is_empty))
    }

    /// The length of the longest tail that follows a token: `after(i)` is the `i`-th token behind it. `None` if no
    /// breaker starts there.
    pub(super) fn longest(&self, id: u32, after: impl Fn(usize) -> Option<u32>) -> Option<usize> {
        let follows = |tail: &&Vec<u32>| tail.iter().enumerate().all(|(i, &token)| after(i) == Some(token));
        self.tails.get(&id)?.iter().filter(follows).map(Vec::len).max()
    }
}

/// The first bytes of a breaker, no broken character at the end.
fn cut(text: &str) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(MAX_BYTES)]
}

/// How many bytes of the breaker's start a piece has, in each place where it has some: all of them if it holds the
/// whole breaker, else as many as it ends in.
fn overlaps<'a>(piece: &'a [u8], breaker: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let whole = piece.windows(breaker.len()).any(|window| window == breaker);
    let ends = (1..breaker.len()).filter(move |&held| !whole && piece.ends_with(&breaker[..held]));
    whole.then_some(breaker.len()).into_iter().chain(ends)
}

/// The tokens of the rest of a breaker. It may begin in the middle of a character, where a token ended: such bytes are
/// looked for among the tokens of one byte.
fn encode(rest: &[u8], vocabulary: &Vocabulary<'_>, pieces: &[Vec<u8>]) -> Vec<u32> {
    let inside = rest.iter().take_while(|&&byte| byte & 0xc0 == 0x80).count();
    let (bytes, text) = rest.split_at(inside);
    let byte_token = |byte: &u8| pieces.iter().position(|piece| piece == &[*byte]).map(|id| id as u32);
    let mut tail: Vec<u32> = bytes.iter().filter_map(byte_token).collect();
    if let Ok(text) = std::str::from_utf8(text)
        && !text.is_empty()
    {
        tail.extend((vocabulary.encode)(text));
    }
    tail.truncate(MAX_TAIL);
    tail
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(piece: &str, breaker: &str) -> Vec<usize> {
        overlaps(piece.as_bytes(), breaker.as_bytes()).collect()
    }

    #[test]
    fn pieces_hold_breakers_whole_or_in_part() {
        assert_eq!(held("a\nb", "\n"), [1]);
        assert_eq!(held("a", "\n"), [0usize; 0]);
        assert_eq!(held("Once", "ceased"), [2]);
        assert_eq!(held("x", "longer"), [0usize; 0]);
        assert_eq!(held("xaa", "aab"), [1, 2]);
        assert_eq!(held("", "a"), [0usize; 0]);
    }

    #[test]
    fn heads_and_tails() {
        let pieces = ["on", "ce", "upon", " u", "once", "p", "\u{e9}", "\n"];
        let vocabulary = Vocabulary {
            tokens: pieces.len(),
            piece: &|id| pieces[id as usize].as_bytes().to_vec(),
            encode: &|text| match text {
                "ce" => vec![1],
                "e" => vec![70, 71],
                "nce" => vec![80],
                _ => panic!("unexpected text {text:?}"),
            },
        };
        let breakers = Breakers::find(&["once".into(), String::new(), "\n".into()], Some(&vocabulary)).unwrap();
        assert!(breakers.is_breaker(4) && breakers.is_breaker(7) && !breakers.is_breaker(0));
        assert_eq!(breakers.longest(0, |i| [1, 9].get(i).copied()), Some(1));
        assert_eq!(breakers.longest(0, |_| Some(2)), None);
        assert_eq!(breakers.longest(0, |_| None), None);
        assert_eq!(breakers.longest(4, |_| None), Some(0));
        assert_eq!(breakers.longest(5, |_| None), None);
    }

    #[test]
    fn a_breaker_may_part_a_character() {
        // The two bytes of e acute are tokens of their own.
        let pieces: [&[u8]; 3] = [b"\xc3", b"\xa9", b"x"];
        let vocabulary = Vocabulary {
            tokens: 3,
            piece: &|id| pieces[id as usize].to_vec(),
            encode: &|text| if text == "x" { vec![2] } else { panic!("unexpected text {text:?}") },
        };
        let breakers = Breakers::find(&["\u{e9}x".into()], Some(&vocabulary)).unwrap();
        assert_eq!(breakers.longest(0, |i| [1, 2].get(i).copied()), Some(2));
    }

    #[test]
    fn without_a_vocabulary_only_no_breakers_will_do() {
        assert!(Breakers::find(&[String::new()], None).is_ok());
        assert_eq!(Breakers::find(&["\n".into()], None).unwrap_err(), Error::NoVocabulary);
    }
}
