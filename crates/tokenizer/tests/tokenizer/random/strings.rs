//! The random strings of tools/goldens/tokenizers.py, whose generator this repeats.

/// Kinds of characters, as code points from and to.
#[rustfmt::skip]
const RANGES: &[&[(u32, u32)]] = &[
    &[(0x61, 0x7A)],
    &[(0x41, 0x5A), (0x61, 0x7A)],
    &[(0x30, 0x39)],
    &[(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)],
    &[(0x20, 0x20)],
    &[(0x9, 0xD), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x2000, 0x200A), (0x2028, 0x2029), (0x3000, 0x3000)],
    &[(0xA, 0xA), (0xD, 0xD), (0x20, 0x20)],
    &[(0x80, 0xFF)],
    &[(0xC0, 0x24F), (0x1E00, 0x1EFF)],
    &[(0x370, 0x3FF), (0x1F00, 0x1FFF)],
    &[(0x400, 0x52F)],
    &[(0x531, 0x556), (0x561, 0x587), (0x10A0, 0x10FF)],
    &[(0x590, 0x6FF)],
    &[(0x900, 0xD7F)],
    &[(0xE01, 0xEFF)],
    &[(0x1000, 0x109F), (0x1780, 0x17FF)],
    &[(0x1100, 0x11FF), (0x3131, 0x318E)],
    &[(0xAC00, 0xD7A3)],
    &[(0x3041, 0x30FF)],
    &[(0x3105, 0x312F), (0x31A0, 0x31BF)],
    &[(0x4E00, 0x9FFF)],
    &[(0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2FA1F)],
    &[(0x300, 0x36F), (0x1AB0, 0x1AC0), (0x20D0, 0x20F0)],
    &[(0x660, 0x669), (0x966, 0x96F), (0xFF10, 0xFF19), (0x1D7CE, 0x1D7FF)],
    &[(0xB2, 0xB3), (0xBC, 0xBE), (0x2150, 0x218B), (0x2460, 0x249B)],
    &[(0x1F300, 0x1F6D7), (0x1F900, 0x1F9FF), (0x200D, 0x200D), (0xFE0F, 0xFE0F), (0x1F3FB, 0x1F3FF)],
    &[(0x2010, 0x205E), (0x20A0, 0x20BF), (0x2100, 0x214F), (0x2190, 0x23FF), (0x2500, 0x27BF)],
    &[(0x3001, 0x303F), (0xFE30, 0xFE4F)],
    &[(0xFF01, 0xFFEE)],
    &[(0x0, 0x1F), (0x7F, 0x9F)],
    &[(0xAD, 0xAD), (0x200B, 0x200F), (0x2060, 0x2064), (0xFEFF, 0xFEFF), (0xFFFD, 0xFFFD)],
    &[(0xE000, 0xE0FF), (0xFDD0, 0xFDEF), (0x10FFF0, 0x10FFFF), (0x378, 0x379), (0xA500, 0xA62B), (0xA722, 0xA787)],
    &[(0xFB00, 0xFB06), (0xFB13, 0xFB17), (0x1D400, 0x1D454), (0x10400, 0x1044F), (0x1E900, 0x1E943)],
    &[(0x27, 0x27), (0x64, 0x64), (0x6C, 0x6D), (0x72, 0x76), (0x44, 0x44), (0x4C, 0x4D), (0x52, 0x56), (0x65, 0x65), (0x45, 0x45)],
    &[(0x30, 0x33), (0x61, 0x63), (0x41, 0x43), (0x20, 0x20), (0x2E, 0x2F), (0x7E, 0x7E), (0xA, 0xA), (0xC9, 0xC9), (0x301, 0x301), (0x4E2D, 0x4E2D)],
];

#[rustfmt::skip]
pub const WORDS: &[&str] = &[
    "hello", " world", "The ", "return ", "def ", "  ", "    ", "\n\n", "\r\n", "I'm", "don't", "IT'S", " we'll",
    "'Ve", "\u{fc}ber", "na\u{ef}ve", " Stra\u{df}e", "\u{65e5}\u{672c}\u{8a9e}", "\u{4e2d}\u{6587}",
    "\u{d55c}\u{ad6d}\u{c5b4}", "\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442} ", "\u{645}\u{631}\u{62d}\u{628}\u{627}",
    "\u{5e9}\u{5dc}\u{5d5}\u{5dd}", "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}", "\u{e44}\u{e17}\u{e22}",
    "\u{3b5}\u{3bb}\u{3bb}\u{3b7}\u{3bd}\u{3b9}\u{3ba}\u{3ac}", "1234567", " 12", "3.14159", "100%", "0x1F", "e.g.",
    "://", "->", "!=", "</", "\u{2026}", "\u{3002}", "\u{2764}\u{fe0f}",
    "\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467}", "\u{e9}", "\u{2460}", "\u{2581}", "\u{2581}\u{2581}a", "##ing",
    "\u{120}", "\u{10a}", "<0x41>", "IMGIMGABCZ", "<sentinel:12>", "\u{ff46}\u{ff55}\u{ff4c}\u{ff4c}", "\u{fb01}",
    "\u{1c5}", "\u{130}", "\u{df}", "\u{17f}", "K", "\u{2126}", "\u{344}", "\u{1100}\u{1161}\u{11a8}",
];

#[rustfmt::skip]
pub const SPECIALS: &[&str] = &[
    "<s>", "</s>", "<unk>", "<mask>", "<pad>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "<|endoftext|>", "<|im_start|>",
    "<|im_end|>", "<|end|>", "<|user|>", "<bos>", "<eos>", "<|turn>", "<turn|>", "<|begin_of_text|>", "<|eot_id|>",
    " <mask> ", "<s> ", " </s>",
];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((z ^ (z >> 31)) >> 11) % n as u64) as usize
    }

    fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }
}

/// Whether a string may hold the texts of special tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Text,
    Prompt,
}

fn string(random: &mut Random, mode: Mode) -> String {
    let mut out = String::new();
    for _ in 0..1 + random.below(6) {
        let choice = random.below(10);
        if mode == Mode::Prompt && choice == 0 {
            out.push_str(random.pick(SPECIALS));
        } else if choice < 3 {
            out.push_str(random.pick(WORDS));
        } else {
            let ranges = random.pick(RANGES);
            let most = if random.below(20) == 0 { 60 } else { 6 };
            let count = 1 + random.below(most);
            let same = random.below(8) == 0;
            let mut c = '\0';
            for i in 0..count {
                if i == 0 || !same {
                    let (first, last) = ranges[random.below(ranges.len())];
                    c = char::from_u32(first + random.below((last - first + 1) as usize) as u32).unwrap();
                }
                out.push(c);
            }
        }
    }
    out
}

/// The first `count` strings of a vocabulary.
pub fn strings(name: &str, mode: Mode, count: usize) -> Vec<String> {
    let suffix = if mode == Mode::Prompt { " prompt" } else { " text" };
    let mut random = Random(fnv(name.bytes().chain(suffix.bytes()).map(u64::from)));
    (0..count).map(|_| string(&mut random, mode)).collect()
}

fn fnv(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0xCBF2_9CE4_8422_2325, |state, value| (state ^ value).wrapping_mul(0x100_0000_01B3))
}

/// The digest of some lists of ids.
pub fn digest(lists: &[Vec<u32>]) -> String {
    let values = lists.iter().flat_map(|ids| ids.iter().copied().chain([u32::MAX]));
    format!("{:016x}", fnv(values.map(u64::from)))
}
