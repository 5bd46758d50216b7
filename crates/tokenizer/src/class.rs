//! Unicode's general categories, as far as pre-tokenizers ask for them. Which runs of them make a word is in `scan`.

use unicode_general_category::{GeneralCategory as G, get_general_category};

/// The class of a character: one category bit at most, and `SPACE` beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Class(u8);

impl Class {
    /// `\p{L}`
    pub const LETTER: Class = Class(1);
    /// `\p{N}`
    pub const NUMBER: Class = Class(2);
    /// `\p{M}`
    pub const MARK: Class = Class(4);
    /// `\p{P}`
    pub const PUNCTUATION: Class = Class(8);
    /// `\s`: Unicode's White_Space
    pub const SPACE: Class = Class(16);
    /// `\p{S}`
    pub const SYMBOL: Class = Class(32);
    /// `\p{C}`, but not what is unassigned.
    pub const CONTROL: Class = Class(64);

    /// Whether any flag of `other` is set.
    #[inline]
    pub const fn any(self, other: Class) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets together.
    pub const fn or(self, other: Class) -> Class {
        Class(self.0 | other.0)
    }

    /// The class of `c`.
    #[inline]
    pub fn of(c: char) -> Class {
        if c.is_ascii() { ASCII[c as usize] } else { Self::beyond_ascii(c) }
    }

    fn beyond_ascii(c: char) -> Class {
        if c.is_whitespace() {
            return Self::SPACE;
        }
        match get_general_category(c) {
            G::UppercaseLetter | G::LowercaseLetter | G::TitlecaseLetter | G::ModifierLetter | G::OtherLetter => {
                Self::LETTER
            }
            G::DecimalNumber | G::LetterNumber | G::OtherNumber => Self::NUMBER,
            G::NonspacingMark | G::SpacingMark | G::EnclosingMark => Self::MARK,
            G::ConnectorPunctuation
            | G::DashPunctuation
            | G::OpenPunctuation
            | G::ClosePunctuation
            | G::InitialPunctuation
            | G::FinalPunctuation
            | G::OtherPunctuation => Self::PUNCTUATION,
            G::MathSymbol | G::CurrencySymbol | G::ModifierSymbol | G::OtherSymbol => Self::SYMBOL,
            G::Control | G::Format | G::PrivateUse | G::Surrogate => Self::CONTROL,
            _ => Class(0),
        }
    }
}

static ASCII: [Class; 128] = {
    let mut table = [Class(0); 128];
    let mut byte = 0;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'A'..=b'Z' | b'a'..=b'z' => Class::LETTER,
            b'0'..=b'9' => Class::NUMBER,
            b'\t'..=b'\r' | b' ' => Class::SPACE,
            b'$' | b'+' | b'<' | b'=' | b'>' | b'^' | b'`' | b'|' | b'~' => Class::SYMBOL,
            b'!'..=b'~' => Class::PUNCTUATION,
            _ => Class::CONTROL,
        };
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ascii_table_agrees_with_unicode() {
        for byte in 0..128u8 {
            let c = char::from(byte);
            assert_eq!(Class::of(c), Class::beyond_ascii(c), "{c:?}");
        }
    }
}
