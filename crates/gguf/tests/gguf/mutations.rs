//! Damaged files: whatever is done to the bytes, opening them ends in a value or an error, and soon.

use bytes::Bytes;
use candor_gguf::{Array, ByteOrder, Format, Gguf, Writer};

/// splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// A file with a bit of everything, small enough that most mutations hit structure.
pub(crate) fn small(order: ByteOrder) -> Vec<u8> {
    let mut writer = Writer::new().byte_order(order);
    writer.insert("general.architecture", "llama");
    writer.insert("general.alignment", 32u32);
    writer.insert("flag", true);
    writer.insert("tokens", vec!["<s>", "\u{2581}a", "b"]);
    writer.insert("scores", vec![0.0f32, -1.0, -2.0]);
    writer.insert("nested", Array::Array(vec![Array::U8(vec![1, 2]), Array::Array(vec![Array::Bool(vec![true])])]));
    writer.insert("split.count", 0u16);
    writer.tensor("a", Format::F32, &[3, 2], vec![1; 24]).unwrap();
    writer.tensor("b", Format::Q8_0, &[32, 2], vec![2; 68]).unwrap();
    writer.tensor("c", Format::Q4K, &[256], vec![3; 144]).unwrap();
    writer.to_bytes().unwrap().to_vec()
}

/// Opens, and if that goes well reads everything.
fn touch(file: Vec<u8>) -> bool {
    let Ok(file) = Gguf::from_bytes(Bytes::from(file)) else { return false };
    for (key, value) in file.metadata().iter() {
        assert!(!key.is_empty() && !format!("{value} {value:#}").is_empty());
    }
    for tensor in file.tensors() {
        assert_eq!(file.data(tensor).len() as u64, tensor.bytes);
        assert!(tensor.elements() <= i64::MAX as u64);
    }
    true
}

#[test]
fn every_truncation_is_refused() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let whole = small(order);
        // The last tensor is padded to the alignment: without the padding, the file still has all that it says.
        let needed = whole.len() - (32 - 144 % 32);
        assert!(touch(whole[..needed].to_vec()));
        for length in 0..needed {
            let error = Gguf::from_bytes(whole[..length].to_vec().into()).expect_err("truncated").to_string();
            assert!(!error.contains('\n') && error.is_ascii(), "{length}: {error}");
        }
    }
}

#[test]
fn random_damage_never_panics() {
    let seed = 20_240_726;
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut opened = 0;
    for case in 0..20_000 {
        let order = if case % 2 == 0 { ByteOrder::Little } else { ByteOrder::Big };
        let mut file = small(order);
        let head = file.len() - 300;
        for _ in 0..[1, 1, 2, 4][random.below(4)] {
            let at = random.below(head);
            match random.below(6) {
                0 => file[at] ^= 1 << random.below(8),
                1 => file[at] = random.next() as u8,
                2 => file[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                3 => {
                    let end = (at + 8).min(head);
                    file[at..end].fill([0, 0xff][random.below(2)]);
                }
                4 => drop(file.drain(at..at + random.below(9).min(head - at))),
                _ => file.insert(at, random.next() as u8),
            }
            if file.len() < head {
                break;
            }
        }
        opened += usize::from(touch(file));
    }
    // Damage in the value of a number or the text of a string goes unseen; elsewhere it does not. Both must occur.
    assert!((500..10_000).contains(&opened), "{opened} of 20000 opened");
}

#[test]
fn random_bytes_after_a_header_never_panic() {
    let seed = 7;
    println!("seed {seed}");
    let mut random = Random(seed);
    for _ in 0..20_000 {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend((random.next() % 4).to_le_bytes());
        file.extend((random.next() % 4).to_le_bytes());
        for _ in 0..random.below(40) {
            // Mostly small numbers, so that lengths, types and counts are often plausible.
            match random.below(4) {
                0 => file.extend((random.next() % 14).to_le_bytes()),
                1 => file.extend(((random.next() % 14) as u32).to_le_bytes()),
                2 => file.push(random.next() as u8),
                _ => file.extend(random.next().to_le_bytes()),
            }
        }
        touch(file);
    }
}
