//! A set of byte strings with an id each, to find every one that a text begins with. Built once, read often: the children
//! of a node lie side by side in the order of their bytes. It does not know what the strings are.

/// A node without an id.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    /// Where its children begin in the list of nodes; they end where those of the next node begin.
    children: u32,
    /// The id of the string that ends here.
    id: u32,
    /// The byte that leads here.
    byte: u8,
}

/// The strings. An empty one is never found.
pub(crate) struct Trie {
    /// In breadth-first order; the root is the first, and one more at the end closes the last one's children.
    nodes: Vec<Node>,
}

impl Trie {
    /// From strings and their ids; of equal strings the last counts.
    pub fn new(mut items: Vec<(&[u8], u32)>) -> Trie {
        items.sort_by_key(|item| item.0);
        let mut nodes = vec![Node { children: 0, id: NONE, byte: 0 }];
        // Ranges of items that share the first `depth` bytes, in the order of their nodes.
        let mut ranges = vec![(0, items.len())];
        let mut depth = 0;
        let mut first = 0;
        while !ranges.is_empty() {
            let mut below = Vec::new();
            for (place, &(start, end)) in ranges.iter().enumerate() {
                let ended = items[start..end].iter().take_while(|item| item.0.len() == depth).count();
                if depth > 0 && ended > 0 {
                    nodes[first + place].id = items[start + ended - 1].1;
                }
                nodes[first + place].children = nodes.len() as u32;
                let mut at = start + ended;
                while at < end {
                    let byte = items[at].0[depth];
                    let same = items[at..end].partition_point(|item| item.0[depth] == byte);
                    nodes.push(Node { children: 0, id: NONE, byte });
                    below.push((at, at + same));
                    at += same;
                }
            }
            first += ranges.len();
            ranges = below;
            depth += 1;
        }
        nodes.push(Node { children: nodes.len() as u32, id: NONE, byte: 0 });
        Trie { nodes }
    }

    /// The lengths and ids of all strings that `text` begins with, shortest first.
    pub fn prefixes<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, u32)> + 'a {
        let mut node = 0;
        let steps = text.iter().enumerate().map_while(move |(at, &byte)| {
            let (start, end) = (self.nodes[node].children as usize, self.nodes[node + 1].children as usize);
            let children = &self.nodes[start..end];
            // Deep in the trie there is nearly always one child.
            let place = match children {
                [only] => (only.byte == byte).then_some(0),
                _ => children.binary_search_by_key(&byte, |child| child.byte).ok(),
            };
            node = start + place?;
            Some((at + 1, self.nodes[node].id))
        });
        steps.filter(|&(_, id)| id != NONE)
    }

    /// The longest string that `text` begins with.
    pub fn longest(&self, text: &[u8]) -> Option<(usize, u32)> {
        self.prefixes(text).last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_prefix() {
        let strings = ["", "a", "abc", "ab\u{e9}", "b", "abcd", "ba", "\u{4e2d}"];
        let trie = Trie::new(strings.iter().zip(0..).map(|(text, id)| (text.as_bytes(), id)).collect());
        for text in ["", "abcde", "ab\u{e9}", "ba", "c", "\u{4e2d}\u{6587}", "ab"] {
            let mut expected: Vec<_> =
                strings.iter().zip(0..).filter(|(s, _)| !s.is_empty() && text.starts_with(*s)).collect();
            expected.sort_by_key(|(s, _)| s.len());
            let expected: Vec<_> = expected.iter().map(|(s, id)| (s.len(), *id)).collect();
            assert_eq!(trie.prefixes(text.as_bytes()).collect::<Vec<_>>(), expected, "{text}");
            assert_eq!(trie.longest(text.as_bytes()), expected.last().copied(), "{text}");
        }
        assert_eq!(Trie::new(vec![(b"", 3)]).longest(b"a"), None);
        assert_eq!(Trie::new(vec![]).longest(b"a"), None);
        assert_eq!(Trie::new(vec![(b"x", 1), (b"x", 2)]).longest(b"xy"), Some((1, 2)));
    }
}
