//! Cuts special tokens out of a text before the rest is tokenized. Longer tokens go first wherever they stand, as in
//! llama.cpp (`tokenizer_st_partition`), not leftmost first.

use crate::{kind::Kind, vocab::Vocab};

/// White space as C has it, which is what special tokens take along.
const WHITE: [char; 6] = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];

/// A part of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fragment<'a> {
    /// Not empty.
    Text(&'a str),
    /// A special token.
    Token(u32),
}

/// The special tokens of a vocabulary, ready to be searched for.
pub(crate) struct Partition {
    /// In the order in which they are looked for: longest text first, then by id.
    order: Vec<u32>,
    /// A trie of their texts; node 0 is its root.
    nodes: Vec<Node>,
}

#[derive(Default)]
struct Node {
    children: Vec<(u8, u32)>,
    /// Place in `order` of the token that ends here.
    place: Option<u32>,
}

impl Partition {
    pub fn new(vocab: &Vocab) -> Partition {
        let length = |&id: &u32| vocab.text(id).map_or(0, str::len);
        let mut order: Vec<u32> = vocab.ids_of(Kind::SPECIAL).collect();
        order.sort_by_key(|id| (std::cmp::Reverse(length(id)), *id));
        let mut nodes = vec![Node::default()];
        for (place, &id) in (0u32..).zip(&order) {
            let mut node = 0;
            for &byte in vocab.text(id).unwrap_or_default().as_bytes() {
                let known = nodes[node].children.iter().find(|child| child.0 == byte);
                node = match known {
                    Some(child) => child.1 as usize,
                    None => {
                        let new = nodes.len();
                        nodes[node].children.push((byte, new as u32));
                        nodes.push(Node::default());
                        new
                    }
                };
            }
            nodes[node].place = Some(place);
        }
        Partition { order, nodes }
    }

    /// Cuts `text` into fragments; tokens of the kinds `ignored` are left as text.
    pub fn split<'a>(&self, text: &'a str, vocab: &Vocab, ignored: Kind) -> Vec<Fragment<'a>> {
        let mut fragments = Vec::new();
        if !text.is_empty() {
            fragments.push(Fragment::Text(text));
        }
        for place in self.present(text.as_bytes()) {
            let id = self.order[place as usize];
            if !vocab.kind(id).any(ignored) {
                fragments = cut(&fragments, id, vocab);
            }
        }
        fragments
    }

    /// The places in `order`, ascending, of the tokens that occur anywhere in `text`. Most texts have none or a few of
    /// the hundreds that a vocabulary has, so this one pass saves hundreds.
    fn present(&self, text: &[u8]) -> Vec<u32> {
        let mut starts = [false; 256];
        self.nodes[0].children.iter().for_each(|child| starts[usize::from(child.0)] = true);
        let mut seen = vec![false; self.order.len()];
        for at in (0..text.len()).filter(|&at| starts[usize::from(text[at])]) {
            let mut node = &self.nodes[0];
            for &byte in &text[at..] {
                let Some(child) = node.children.iter().find(|child| child.0 == byte) else { break };
                node = &self.nodes[child.1 as usize];
                if let Some(place) = node.place {
                    seen[place as usize] = true;
                }
            }
        }
        (0u32..).zip(seen).filter(|(_, seen)| *seen).map(|(place, _)| place).collect()
    }
}

/// Cuts token `id` out of every text among `fragments`.
fn cut<'a>(fragments: &[Fragment<'a>], id: u32, vocab: &Vocab) -> Vec<Fragment<'a>> {
    let needle = vocab.text(id).unwrap_or_default();
    let mut out = Vec::with_capacity(fragments.len() + 2);
    for &fragment in fragments {
        let Fragment::Text(mut text) = fragment else {
            out.push(fragment);
            continue;
        };
        while let Some(at) = text.find(needle) {
            let mut before = &text[..at];
            if vocab.kind(id).any(Kind::LSTRIP) {
                before = before.trim_end_matches(WHITE);
            }
            if !before.is_empty() {
                out.push(Fragment::Text(before));
            }
            out.push(Fragment::Token(id));
            text = &text[at + needle.len()..];
            if vocab.kind(id).any(Kind::RSTRIP) {
                text = text.trim_start_matches(WHITE);
            }
        }
        if !text.is_empty() {
            out.push(Fragment::Text(text));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use Fragment::{Text, Token};

    #[test]
    fn longest_token_first_wherever_it_stands() {
        let texts = ["<a>", "ab", "bcd", "  ", "<end>", "<unk>", "<mask>"].map(String::from);
        let kinds = vec![
            Kind::CONTROL,
            Kind::USER_DEFINED,
            Kind::USER_DEFINED,
            Kind::USER_DEFINED,
            Kind::CONTROL.with(Kind::RSTRIP),
            Kind::UNKNOWN,
            Kind::CONTROL.with(Kind::LSTRIP),
        ];
        let vocab = Vocab::new(&texts, kinds).unwrap();
        let partition = Partition::new(&vocab);
        let none = Kind::UNDEFINED;
        let cases: &[(&str, Kind, &[Fragment])] = &[
            ("", none, &[]),
            ("plain", none, &[Text("plain")]),
            ("<a>x<a><a>", none, &[Token(0), Text("x"), Token(0), Token(0)]),
            ("<a>xab", Kind::RESERVED, &[Text("<a>x"), Token(1)]),
            ("<unk>", none, &[Token(5)]),
            ("abcd", none, &[Text("a"), Token(2)]),
            ("     ", none, &[Token(3), Token(3), Text(" ")]),
            ("x \u{b}<mask> \r<mask>y", none, &[Text("x"), Token(6), Token(6), Text("y")]),
            ("x <end> \n\ty", none, &[Text("x "), Token(4), Text("y")]),
        ];
        for &(text, ignored, expected) in cases {
            assert_eq!(partition.split(text, &vocab, ignored), expected, "{text:?}");
        }
    }
}
