//! The table of pre-tokenizers: which splitting steps, and which BPE habits, go with each name that `tokenizer.ggml.pre`
//! can hold. Names, rules and defaults are llama.cpp's (`llama-vocab.cpp`). The scanners are in `scan`.

use crate::class::Class;
use crate::deepseek_letters;
use crate::scan::Step;

/// The rules that go by one or more names.
pub(crate) struct Rules {
    /// The names in files; the first is the one that the fixtures use.
    pub names: &'static [&'static str],
    /// The splitting steps, each applied to every piece that the one before left.
    steps: &'static [Step],
    /// A piece that is a token stays whole, whatever the merges make of it.
    pub ignore_merges: bool,
    /// What `tokenizer.ggml.add_bos_token` is where the file does not say.
    pub add_bos: bool,
}

const LLAMA3: &[Step] = &[Step::Llama3 { digits: 3, word: Class::LETTER }];

/// The rules of a file that does not name any.
pub(crate) static DEFAULT: Rules = Rules {
    names: &["default"],
    steps: &[
        Step::Runs(|c| Class::of(c).any(Class::PUNCTUATION) || "$+<=>^~|".contains(c)),
        Step::Gpt2,
        Step::Runs(is_number),
        Step::DigitTriples,
    ],
    ignore_merges: false,
    add_bos: false,
};

static TABLE: [Rules; 9] = [
    Rules {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        steps: LLAMA3,
        ignore_merges: true,
        add_bos: true,
    },
    Rules { names: &["glm4", "glm5"], steps: LLAMA3, ignore_merges: true, add_bos: false },
    Rules { names: &["smaug-bpe", "dbrx", "chatglm-bpe"], steps: LLAMA3, ignore_merges: false, add_bos: false },
    Rules {
        names: &["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "grok-2"],
        steps: &[Step::Llama3 { digits: 1, word: Class::LETTER }],
        ignore_merges: false,
        add_bos: false,
    },
    Rules {
        names: &["qwen35"],
        steps: &[Step::Llama3 { digits: 1, word: Class::LETTER.or(Class::MARK) }],
        ignore_merges: false,
        add_bos: false,
    },
    Rules {
        names: &[
            "gpt-2",
            "mpt",
            "olmo",
            "phi-2",
            "jais",
            "trillion",
            "exaone4",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "granite-docling",
        ],
        steps: &[Step::Gpt2],
        ignore_merges: false,
        add_bos: false,
    },
    Rules {
        names: &["starcoder", "smollm", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        steps: &[Step::Each(is_number), Step::Gpt2],
        ignore_merges: false,
        add_bos: false,
    },
    Rules {
        names: &["falcon"],
        steps: &[
            Step::Runs(|c| Class::of(c).any(Class::PUNCTUATION) || "$+<=>^~|`".contains(c)),
            Step::Gpt2,
            Step::DigitTriples,
        ],
        ignore_merges: false,
        add_bos: false,
    },
    Rules {
        names: &["deepseek-llm"],
        steps: &[
            Step::Each(|c| c == '\r' || c == '\n'),
            Step::SpaceAndRun(deepseek_letters::is_letter),
            Step::SpaceAndRun(is_deepseek_punctuation),
            Step::TrailingSpace,
            Step::Runs(is_deepseek_cjk),
            Step::Runs(is_number),
        ],
        ignore_merges: false,
        add_bos: false,
    },
];

fn is_number(c: char) -> bool {
    Class::of(c).any(Class::NUMBER)
}

/// ASCII and full-width punctuation as the expression's ranges have it, which is with the ASCII letters.
fn is_deepseek_punctuation(c: char) -> bool {
    matches!(c, '!'..='/' | ':'..='~' | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff5e}' | '\u{2018}'..='\u{201f}'
        | '\u{3001}'..='\u{3002}')
}

/// What the expression takes for CJK, which is much more than that, but not white space.
fn is_deepseek_cjk(c: char) -> bool {
    matches!(c, '\u{800}'..='\u{9fa5}' | '\u{ac00}'..='\u{d7ff}') && !c.is_whitespace()
}

impl Rules {
    /// The rules called `name`.
    pub fn find(name: &str) -> Option<&'static Rules> {
        TABLE.iter().chain([&DEFAULT]).find(|rules| rules.names.contains(&name))
    }

    /// Calls `piece` with each piece of `text`, in order; together they are the text.
    pub fn split<'a>(&self, text: &'a str, piece: &mut dyn FnMut(&'a str)) {
        split(self.steps, text, piece);
    }
}

fn split<'a>(steps: &[Step], text: &'a str, piece: &mut dyn FnMut(&'a str)) {
    let Some((step, rest)) = steps.split_first() else { return piece(text) };
    let mut at = 0;
    while at < text.len() {
        let end = step.end(text, at);
        split(rest, &text[at..end], piece);
        at = end;
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
    fn names_are_unique_and_unknown_ones_are_not_guessed() {
        let mut names: Vec<_> = TABLE.iter().chain([&DEFAULT]).flat_map(|rules| rules.names).collect();
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for name in ["", "tekken", "Llama-bpe", "llama"] {
            assert!(Rules::find(name).is_none(), "{name:?}");
        }
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
        ];
        for (name, text, expected) in cases {
            assert_eq!(pieces(name, text), *expected, "{name} {text:?}");
        }
    }
}
