//! The alphabet in which byte-level BPE vocabularies are written: each byte is one printable character (GPT-2's
//! `bytes_to_unicode`). It says nothing about which byte strings are tokens.

/// The characters from U+0100 on that stand for the bytes without a printable character of their own.
const SHIFTED: u32 = 0x100;

/// Number of code points that the alphabet reaches up to.
const REACH: usize = 0x144;

const fn prints(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

const CHARS: [char; 256] = {
    let mut chars = ['\0'; 256];
    let (mut byte, mut shifted) = (0, SHIFTED);
    while byte < 256 {
        let code = if prints(byte as u8) {
            byte as u32
        } else {
            shifted += 1;
            shifted - 1
        };
        chars[byte] = match char::from_u32(code) {
            Some(c) => c,
            None => unreachable!(),
        };
        byte += 1;
    }
    chars
};

const BYTES: [Option<u8>; REACH] = {
    let mut bytes = [None; REACH];
    let mut byte = 0;
    while byte < 256 {
        bytes[CHARS[byte] as usize] = Some(byte as u8);
        byte += 1;
    }
    bytes
};

/// The character that stands for `byte`.
pub(crate) fn char_of(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

/// The byte that `c` stands for, or `None` where `c` is not of the alphabet.
pub(crate) fn byte_of(c: char) -> Option<u8> {
    BYTES.get(c as usize).copied().flatten()
}

/// Appends the alphabet's spelling of `bytes`.
pub(crate) fn spell(bytes: &[u8], out: &mut String) {
    out.extend(bytes.iter().map(|&byte| char_of(byte)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        for byte in 0..=255 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!(char_of(b' '), '\u{120}');
        assert_eq!(char_of(b'\n'), '\u{10a}');
        assert_eq!(char_of(0xad), '\u{143}');
        for c in [' ', '\u{ad}', '\u{144}', '\u{10ffff}'] {
            assert_eq!(byte_of(c), None, "{c:?}");
        }
    }
}
