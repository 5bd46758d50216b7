//! Pre-tokenization: the rules that go by a name of `tokenizer.ggml.pre`, and how their steps cut a text. The table of
//! names is in `rules`, the scanners are in `scan`.

use crate::scan::Step;

/// The rules that go by one or more names.
pub(crate) struct Rules {
    /// The names in files; the first is the one that the fixtures use.
    pub names: &'static [&'static str],
    /// The splitting steps, each applied to every piece that the one before left.
    pub steps: &'static [Step],
    /// A piece that is a token stays whole, whatever the merges make of it.
    pub ignore_merges: bool,
    /// What merges join.
    pub alphabet: Alphabet,
    /// What `tokenizer.ggml.add_bos_token` is where the file does not say.
    pub add_bos: AddBos,
    /// What `tokenizer.ggml.add_sep_token` is where the file does not say.
    pub add_sep: bool,
}

/// The symbols that a piece starts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alphabet {
    /// Bytes, each spelled as one printable character.
    Bytes,
    /// Characters, a space spelled U+2581; what has no token becomes byte tokens.
    Characters,
    /// The same, and a piece of line ends that is a token stays whole.
    CharactersAndLineEnds,
}

/// Whether a prompt begins with BOS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AddBos {
    No,
    Yes,
    /// Whatever the file says: its converters wrote `false` by mistake.
    Always,
}

impl Rules {
    /// Rules that only split.
    pub const fn new(names: &'static [&'static str], steps: &'static [Step]) -> Rules {
        Rules { names, steps, ignore_merges: false, alphabet: Alphabet::Bytes, add_bos: AddBos::No, add_sep: false }
    }

    /// Calls `piece` with each piece of `text`, in order; together they are the text.
    pub fn split<'a>(&self, text: &'a str, piece: &mut dyn FnMut(&'a str)) {
        split(self.steps, text, piece);
    }
}

fn split<'a>(steps: &[Step], text: &'a str, piece: &mut dyn FnMut(&'a str)) {
    match steps.split_first() {
        None if text.is_empty() => {}
        None => piece(text),
        Some((step, [])) => step.cut(text, piece),
        Some((step, rest)) => step.cut(text, &mut |part| split(rest, part, piece)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces<'a>(name: &str, text: &'a str) -> Vec<&'a str> {
        let mut pieces = Vec::new();
        Rules::find(name).expect("a known name").split(text, &mut |piece| pieces.push(piece));
        pieces
    }

    #[test]
    fn steps_refine_each_other() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("default", "a+b 12345", &["a", "+", "b", " ", "123", "45"]),
            ("falcon", "Hi, `x` 1234", &["Hi", ",", " ", "`", "x", "`", " ", "123", "4"]),
            ("falcon", "Hi 1234", &["Hi", " ", "123", "4"]),
            ("starcoder", "x12 3", &["x", "1", "2", " ", "3"]),
            (
                "deepseek-llm",
                "a, b\n\n12\u{4e2d}\u{6587}  ",
                &["a", ",", " b", "\n", "\n", "12", "\u{4e2d}\u{6587}", "  "],
            ),
            ("gpt-4o", "HelloWorld's ABCd 1234/", &["Hello", "World's", " ABCd", " ", "123", "4", "/"]),
            ("gpt-4o", "\u{c9}CO a//\n\n//b", &["\u{c9}", "CO", " a", "//\n\n//", "b"]),
            ("tekken", "IT'S 12", &["IT", "'S", " ", "1", "2"]),
            ("kimi-k2", "ab\u{4e2d}\u{6587}c it's", &["ab", "\u{4e2d}\u{6587}", "c", " it's"]),
            ("exaone-moe", "two words, x//y", &["two words", ",", " x", "//", "y"]),
            ("jais-2", "a       b", &["a", "    ", "  ", " b"]),
            ("deepseek-v3", "+abc x1234\u{3042}!!\n\n", &["+abc", " x", "123", "4", "\u{3042}", "!!\n\n"]),
            ("spark2_5", "a!\n\n", &["a", "!", "\n", "\n"]),
            ("superbpe", "a b 1234567", &["a b ", "1", "234", "567"]),
            ("tiny_aya", "x1234567  8 y", &["x", "1", "234", "567", " ", " ", "8", " y"]),
            ("chameleon", "xIMGIMGABZa, b", &["x", "IMGIMGABZ", "a", ",", " b"]),
            ("bloom", "a, b  c", &["a", ",", " b", " ", " c"]),
            ("gemma4", "a b\n\nc", &["a b", "\n\n", "c"]),
        ];
        for (name, text, expected) in cases {
            assert_eq!(pieces(name, text), *expected, "{name} {text:?}");
        }
    }
}
