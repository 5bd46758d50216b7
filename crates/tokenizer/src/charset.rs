//! Sets of characters that pre-tokenizers list by hand. The ranges are those of llama.cpp's expressions; a range that its
//! source has wrong is kept, with a remark, since files are converted and tested with it. Data only.

/// First and last of each range, ascending.
type Ranges = &'static [(char, char)];

fn within(ranges: Ranges, c: char) -> bool {
    let after = ranges.partition_point(|&(first, _)| first <= c);
    after > 0 && c <= ranges[after - 1].1
}

/// Kana and the ideographs of Unicode 1 (`[一-龥぀-ゟ゠-ヿ]`).
pub(crate) fn is_cjk(c: char) -> bool {
    within(&[('\u{3040}', '\u{30ff}'), ('\u{4e00}', '\u{9fa5}')], c)
}

/// Han, as Kimi K2 leaves it out of words.
pub(crate) fn is_han(c: char) -> bool {
    const HAN: Ranges = &[
        ('\u{3400}', '\u{4dbf}'),
        ('\u{4e00}', '\u{9fff}'),
        ('\u{f900}', '\u{faff}'),
        ('\u{20000}', '\u{2a6df}'),
        ('\u{2a700}', '\u{2ebef}'),
        ('\u{2f800}', '\u{2fa1f}'),
    ];
    within(HAN, c)
}

/// The ideographs that BERT makes words of their own. The gap from U+2B820 is in Hugging Face's code too.
pub(crate) fn is_bert_ideograph(c: char) -> bool {
    const IDEOGRAPHS: Ranges = &[
        ('\u{3400}', '\u{4dbf}'),
        ('\u{4e00}', '\u{9fff}'),
        ('\u{f900}', '\u{faff}'),
        ('\u{20000}', '\u{2a6df}'),
        ('\u{2a700}', '\u{2b81f}'),
        ('\u{2b920}', '\u{2ceaf}'),
        ('\u{2f800}', '\u{2fa1f}'),
    ];
    within(IDEOGRAPHS, c)
}

/// The scripts without spaces that AFMoE cuts out. The range from U+8C48 was meant to begin at U+F900, whose character
/// normalizes to it.
pub(crate) fn is_afmoe_script(c: char) -> bool {
    const SCRIPTS: Ranges = &[
        ('\u{e40}', '\u{eff}'),
        ('\u{1000}', '\u{109f}'),
        ('\u{1100}', '\u{11ff}'),
        ('\u{1780}', '\u{17ff}'),
        ('\u{2f00}', '\u{2fdf}'),
        ('\u{3040}', '\u{30ff}'),
        ('\u{3400}', '\u{4dbf}'),
        ('\u{4e00}', '\u{faff}'),
        ('\u{ff65}', '\u{ff9f}'),
    ];
    within(SCRIPTS, c)
}

/// Korean letters, for Youtu.
pub(crate) fn is_youtu_korean(c: char) -> bool {
    within(&[('\u{3131}', '\u{318e}'), ('\u{ac00}', '\u{d7a3}')], c)
}

/// CJK punctuation, for Youtu.
pub(crate) fn is_youtu_punctuation(c: char) -> bool {
    const MARKS: Ranges = &[
        ('\u{2014}', '\u{2014}'),
        ('\u{2018}', '\u{2019}'),
        ('\u{201c}', '\u{201d}'),
        ('\u{2026}', '\u{2026}'),
        ('\u{3001}', '\u{303f}'),
        ('\u{fe30}', '\u{fe4f}'),
        ('\u{ff01}', '\u{ff01}'),
        ('\u{ff0c}', '\u{ff0c}'),
        ('\u{ff1a}', '\u{ff1b}'),
    ];
    within(MARKS, c)
}

/// Bopomofo, for Youtu.
pub(crate) fn is_bopomofo(c: char) -> bool {
    within(&[('\u{3105}', '\u{312f}')], c)
}

/// ASCII and full-width punctuation as DeepSeek LLM's expression has it, whose ranges take the ASCII letters in.
pub(crate) fn is_deepseek_punctuation(c: char) -> bool {
    const MARKS: Ranges = &[
        ('!', '/'),
        (':', '~'),
        ('\u{2018}', '\u{201f}'),
        ('\u{3001}', '\u{3002}'),
        ('\u{ff01}', '\u{ff0f}'),
        ('\u{ff1a}', '\u{ff5e}'),
    ];
    within(MARKS, c)
}

/// What DeepSeek's expressions take for CJK, which is much more than that, but not white space.
pub(crate) fn is_deepseek_cjk(c: char) -> bool {
    within(&[('\u{800}', '\u{9fa5}'), ('\u{ac00}', '\u{d7ff}')], c) && !c.is_whitespace()
}

/// What ends a word of BLOOM's, besides white space.
pub(crate) fn is_bloom_break(c: char) -> bool {
    "(|.,!?)\u{2026}\u{3002}\u{ff0c}\u{3001}\u{964}\u{6d4}\u{60c}".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_belong() {
        for (set, inside, outside) in [
            (is_cjk as fn(char) -> bool, "\u{3040}\u{30ff}\u{4e00}\u{9fa5}", "a\u{303f}\u{3100}\u{9fa6}"),
            (is_han, "\u{3400}\u{9fff}\u{2ebef}", "\u{33ff}\u{a000}\u{2ebf0}"),
            (is_bert_ideograph, "\u{2b81f}\u{2b920}\u{2fa1f}", "\u{2b820}\u{2b91f}\u{3041}"),
            (is_afmoe_script, "\u{e40}\u{faff}\u{ff65}", "\u{e3f}\u{fb00}\u{ffa0}"),
            (is_youtu_korean, "\u{3131}\u{d7a3}", "\u{3130}\u{d7a4}"),
            (is_youtu_punctuation, "\u{2014}\u{303f}\u{ff1b}", "\u{3000}-\u{ff1c}"),
            (is_deepseek_punctuation, "!~A\u{3002}", " 9\u{3000}\u{3003}"),
            (is_deepseek_cjk, "\u{800}\u{9fa5}\u{d7ff}", "\u{7ff}\u{3000}\u{9fa6}"),
        ] {
            assert!(inside.chars().all(set), "{inside}");
            assert!(!outside.chars().any(set), "{outside}");
        }
    }
}
