//! The letters of DeepSeek LLM's pre-tokenizer. It lists the cased letters of an old Unicode version range by range, so
//! today's categories cannot stand in for it. Data only.

/// Whether `c` is one of them.
pub(crate) fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    let after = LETTERS.partition_point(|&(first, _)| first <= c);
    after > 0 && c <= LETTERS[after - 1].1
}

/// First and last of each range, ascending.
#[rustfmt::skip]
const LETTERS: [(char, char); 87] = [
    ('A', 'Z'), ('a', 'z'), ('\u{b5}', '\u{b5}'), ('\u{c0}', '\u{d6}'), ('\u{d8}', '\u{f6}'), ('\u{f8}', '\u{1ba}'),
    ('\u{1bc}', '\u{1bf}'), ('\u{1c4}', '\u{293}'), ('\u{295}', '\u{2af}'), ('\u{370}', '\u{373}'),
    ('\u{376}', '\u{376}'), ('\u{377}', '\u{377}'), ('\u{37b}', '\u{37d}'), ('\u{37f}', '\u{37f}'),
    ('\u{386}', '\u{386}'), ('\u{388}', '\u{38a}'), ('\u{38c}', '\u{38c}'), ('\u{38e}', '\u{3a1}'),
    ('\u{3a3}', '\u{3f5}'), ('\u{3f7}', '\u{481}'), ('\u{48a}', '\u{52f}'), ('\u{531}', '\u{556}'),
    ('\u{10a0}', '\u{10c5}'), ('\u{13a0}', '\u{13f5}'), ('\u{13f8}', '\u{13fd}'), ('\u{1c90}', '\u{1cba}'),
    ('\u{1cbd}', '\u{1cbf}'), ('\u{1d00}', '\u{1d2b}'), ('\u{1d6b}', '\u{1d77}'), ('\u{1d79}', '\u{1d9a}'),
    ('\u{1e00}', '\u{1f15}'), ('\u{1f18}', '\u{1f1d}'), ('\u{1f20}', '\u{1f45}'), ('\u{1f48}', '\u{1f4d}'),
    ('\u{1f50}', '\u{1f57}'), ('\u{1f59}', '\u{1f59}'), ('\u{1f5b}', '\u{1f5b}'), ('\u{1f5d}', '\u{1f5d}'),
    ('\u{1f5f}', '\u{1f7d}'), ('\u{1f80}', '\u{1fb4}'), ('\u{1fb6}', '\u{1fbc}'), ('\u{1fbe}', '\u{1fbe}'),
    ('\u{1fc2}', '\u{1fc4}'), ('\u{1fc6}', '\u{1fcc}'), ('\u{1fd0}', '\u{1fd3}'), ('\u{1fd6}', '\u{1fdb}'),
    ('\u{1fe0}', '\u{1fec}'), ('\u{1ff2}', '\u{1ff4}'), ('\u{1ff6}', '\u{1ffc}'), ('\u{2102}', '\u{2102}'),
    ('\u{2107}', '\u{2107}'), ('\u{210a}', '\u{2113}'), ('\u{2115}', '\u{2115}'), ('\u{2119}', '\u{211d}'),
    ('\u{2124}', '\u{2124}'), ('\u{2126}', '\u{2126}'), ('\u{2128}', '\u{2128}'), ('\u{212a}', '\u{212d}'),
    ('\u{212f}', '\u{2134}'), ('\u{2139}', '\u{2139}'), ('\u{213c}', '\u{213f}'), ('\u{2145}', '\u{2149}'),
    ('\u{214e}', '\u{214e}'), ('\u{2183}', '\u{2183}'), ('\u{2184}', '\u{2184}'), ('\u{2c00}', '\u{2c7b}'),
    ('\u{2c7e}', '\u{2ce4}'), ('\u{2ceb}', '\u{2cee}'), ('\u{2cf2}', '\u{2cf2}'), ('\u{2cf3}', '\u{2cf3}'),
    ('\u{a640}', '\u{a66d}'), ('\u{a680}', '\u{a69b}'), ('\u{a722}', '\u{a76f}'), ('\u{a771}', '\u{a787}'),
    ('\u{a78b}', '\u{a78e}'), ('\u{ab70}', '\u{abbf}'), ('\u{fb00}', '\u{fb06}'), ('\u{fb13}', '\u{fb17}'),
    ('\u{ff21}', '\u{ff3a}'), ('\u{ff41}', '\u{ff5a}'), ('\u{10400}', '\u{1044f}'), ('\u{104b0}', '\u{104d3}'),
    ('\u{104d8}', '\u{104fb}'), ('\u{10c80}', '\u{10cb2}'), ('\u{10cc0}', '\u{10cf2}'), ('\u{118a0}', '\u{118df}'),
    ('\u{1e900}', '\u{1e943}'),];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_ascend_and_their_ends_belong() {
        assert!(LETTERS.iter().all(|(first, last)| first <= last));
        assert!(LETTERS.windows(2).all(|pair| pair[0].1 < pair[1].0));
        for c in ['a', 'Z', '\u{b5}', '\u{293}', '\u{295}', '\u{1e943}'] {
            assert!(is_letter(c), "{c:?}");
        }
        for c in ['0', '@', '[', '\u{aa}', '\u{294}', '\u{560}', '\u{1e944}', '\u{4e00}'] {
            assert!(!is_letter(c), "{c:?}");
        }
    }
}
