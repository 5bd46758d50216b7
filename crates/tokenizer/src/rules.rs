//! The table of pre-tokenizers: which splitting steps, and which BPE habits, go with each name that `tokenizer.ggml.pre`
//! can hold. Names, rules and defaults are llama.cpp's (`llama-vocab.cpp`). Data, and finding a name in it.

use crate::charset::{self, is_bloom_break};
use crate::class::Class;
use crate::deepseek_letters;
use crate::marked::LineEnds;
use crate::pre::{AddBos, Alphabet, Rules};
use crate::prose::{Contractions, Prose, Spaces, Tail, Word};
use crate::runs::{is_line_end, is_space};
use crate::scan::Step;

const LETTER_OR_MARK: Class = Class::LETTER.or(Class::MARK);

const PROSE_LLAMA3: Prose = Prose {
    contractions: Contractions::Piece,
    word: Word::Run(Class::LETTER),
    digits: 3,
    breaks: Class::LETTER,
    tail: Tail::LineEnds,
    spaces: Spaces::ButLast,
};
const PROSE_GPT4O: Prose = Prose {
    contractions: Contractions::Suffix,
    word: Word::Cased(Class::LETTER),
    tail: Tail::LineEndsAndSlashes,
    ..PROSE_LLAMA3
};

pub(crate) const LLAMA3: Step = Step::Prose(&PROSE_LLAMA3);
pub(crate) const QWEN2: Step = Step::Prose(&Prose { digits: 1, ..PROSE_LLAMA3 });
pub(crate) const QWEN35: Step =
    Step::Prose(&Prose { digits: 1, word: Word::Run(LETTER_OR_MARK), breaks: LETTER_OR_MARK, ..PROSE_LLAMA3 });
const MARKED: Step = Step::Marked(LineEnds::Joined);
const CJK: Step = Step::Runs(charset::is_cjk);
const LINES: Step = Step::Runs(|c| c == '\n');

/// The rules of a file that does not name any.
pub(crate) static DEFAULT: Rules = Rules::new(
    &["default"],
    &[
        Step::Runs(|c| is_punctuation(c) || "$+<=>^~|".contains(c)),
        Step::Gpt2,
        Step::Runs(is_number),
        Step::DigitTriples,
    ],
);

pub(crate) static TABLE: &[Rules] = &[
    Rules {
        ignore_merges: true,
        add_bos: AddBos::Yes,
        ..Rules::new(
            &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"],
            &[LLAMA3],
        )
    },
    Rules { ignore_merges: true, ..Rules::new(&["glm4", "glm5"], &[LLAMA3]) },
    Rules::new(&["smaug-bpe", "dbrx", "chatglm-bpe"], &[LLAMA3]),
    Rules::new(
        &["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "grok-2", "solar-open"],
        &[QWEN2],
    ),
    Rules::new(&["qwen35"], &[QWEN35]),
    Rules::new(&["ufakzeka"], &[Step::Prose(&Prose { digits: 1, contractions: Contractions::Plain, ..PROSE_LLAMA3 })]),
    Rules::new(&["bailingmoe", "bailingmoe2", "llada-moe"], &[QWEN2]),
    Rules::new(&["seed-coder"], &[Step::Prose(&Prose { digits: 1, tail: Tail::Nothing, ..PROSE_LLAMA3 })]),
    Rules::new(&["jais-2"], &[Step::Prose(&Prose { spaces: Spaces::Halving, ..PROSE_LLAMA3 })]),
    Rules { ignore_merges: true, ..Rules::new(&["minicpm5"], &[Step::Digits(3), LLAMA3]) },
    Rules::new(&["laguna"], &[LINES, QWEN2]),
    Rules::new(
        &["exaone-moe"],
        &[Step::Prose(&Prose { digits: 1, word: Word::Spaced, tail: Tail::OneLineEndOrSlash, ..PROSE_LLAMA3 })],
    ),
    Rules::new(&["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], &[Step::Prose(&PROSE_GPT4O)]),
    Rules {
        ignore_merges: true,
        add_bos: AddBos::Yes,
        ..Rules::new(
            &["tekken"],
            &[Step::Prose(&Prose { digits: 1, contractions: Contractions::Plain, ..PROSE_GPT4O })],
        )
    },
    Rules {
        ignore_merges: true,
        ..Rules::new(
            &["granite-embed-multi-97m"],
            &[Step::Prose(&Prose { word: Word::Cased(LETTER_OR_MARK), ..PROSE_GPT4O })],
        )
    },
    Rules::new(
        &["tiny_aya", "cohere2moe"],
        &[Step::DigitsFromRight, Step::Prose(&Prose { word: Word::Run(LETTER_OR_MARK), ..PROSE_GPT4O })],
    ),
    Rules {
        ignore_merges: true,
        ..Rules::new(
            &["youtu"],
            &[
                Step::RunsOf(&[
                    charset::is_youtu_korean,
                    charset::is_youtu_punctuation,
                    charset::is_bopomofo,
                    charset::is_cjk,
                ]),
                Step::Prose(&Prose { digits: 1, word: Word::Run(LETTER_OR_MARK), ..PROSE_GPT4O }),
            ],
        )
    },
    Rules::new(
        &["kimi-k2"],
        &[Step::Prose(&Prose { contractions: Contractions::Suffix, word: Word::NotHan, ..PROSE_LLAMA3 })],
    ),
    Rules::new(&["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], &[Step::Digits(3), CJK, MARKED]),
    Rules::new(&["spark2_5"], &[Step::Digits(3), CJK, Step::Marked(LineEnds::Alone), Step::Each(is_number)]),
    Rules::new(&["afmoe"], &[Step::DigitsFromRight, Step::Runs(charset::is_afmoe_script), MARKED]),
    Rules::new(
        &["deepseek-llm"],
        &[
            Step::Each(is_line_end),
            Step::SpaceAndRun(deepseek_letters::is_letter),
            Step::SpaceAndRun(charset::is_deepseek_punctuation),
            Step::TrailingSpace,
            Step::Runs(charset::is_deepseek_cjk),
            Step::Runs(is_number),
        ],
    ),
    Rules::new(
        &["deepseek-coder"],
        &[
            Step::Each(is_line_end),
            Step::SpaceAndRun(|c| Class::of(c).any(Class::LETTER)),
            Step::SpaceAndRun(is_punctuation),
            Step::Runs(charset::is_deepseek_cjk),
            Step::Each(is_number),
        ],
    ),
    Rules::new(
        &[
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
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "modern-bert",
        ],
        &[Step::Gpt2],
    ),
    Rules { add_sep: true, ..Rules::new(&["jina-v1-en", "jina-v2-code", "roberta-bpe"], &[Step::Gpt2]) },
    Rules::new(
        &["starcoder", "smollm", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        &[Step::Each(is_number), Step::Gpt2],
    ),
    Rules::new(
        &["falcon"],
        &[Step::Runs(|c| is_punctuation(c) || "$+<=>^~|`".contains(c)), Step::Gpt2, Step::DigitTriples],
    ),
    Rules {
        add_bos: AddBos::Yes,
        ..Rules::new(
            &["chameleon"],
            &[
                Step::Found(sentinel),
                Step::Found(image),
                Step::Found(indent),
                Step::Each(is_number),
                Step::Each(|c| is_punctuation(c) || c.is_ascii_punctuation()),
                Step::Gpt2,
            ],
        )
    },
    Rules::new(&["bloom", "poro-chat", "gpt3-finnish"], &[Step::BlankAndRun(is_bloom)]),
    Rules::new(&["viking"], &[Step::BlankAndRun(is_bloom), Step::Each(is_number)]),
    Rules::new(&["superbpe"], &[Step::Runs(is_number), Step::BeforeTriples]),
    Rules {
        alphabet: Alphabet::CharactersAndLineEnds,
        add_bos: AddBos::Always,
        ..Rules::new(&["gemma4", "granite-embed-multi-311m"], &[LINES])
    },
    Rules { alphabet: Alphabet::Characters, ..Rules::new(&["sarvam-moe"], &[LINES]) },
    Rules { alphabet: Alphabet::Characters, ..Rules::new(&["whitespace"], &[Step::Runs(is_space)]) },
];

impl Rules {
    /// The rules called `name`.
    pub fn find(name: &str) -> Option<&'static Rules> {
        TABLE.iter().chain([&DEFAULT]).find(|rules| rules.names.contains(&name))
    }
}

fn is_number(c: char) -> bool {
    Class::of(c).any(Class::NUMBER)
}

fn is_punctuation(c: char) -> bool {
    Class::of(c).any(Class::PUNCTUATION)
}

fn is_bloom(c: char) -> bool {
    !is_space(c) && !is_bloom_break(c)
}

/// `<sentinel:[0-9]+>`
fn sentinel(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("<sentinel:")?;
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    (after.len() < rest.len() && after.starts_with('>')).then_some(text.len() - after.len() + 1)
}

/// `IMGIMG[A-I]{1,4}Z`
fn image(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("IMGIMG")?.as_bytes();
    let letters = rest.iter().take(4).take_while(|byte| matches!(byte, b'A'..=b'I')).count();
    (letters > 0 && rest.get(letters) == Some(&b'Z')).then_some(6 + letters + 1)
}

/// `[\t\n]|    |  `
fn indent(text: &str) -> Option<usize> {
    let found = ["\t", "\n", "    ", "  "].into_iter().find(|indent| text.starts_with(indent));
    found.map(str::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_unknown_ones_are_not_guessed() {
        let mut names: Vec<_> = TABLE.iter().chain([&DEFAULT]).flat_map(|rules| rules.names).collect();
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for name in ["", "gpt-5", "Llama-bpe", "llama"] {
            assert!(Rules::find(name).is_none(), "{name:?}");
        }
    }
}
