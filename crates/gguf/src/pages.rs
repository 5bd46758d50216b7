//! What pages memory has, by what Linux says of this process.

use std::ops::Range;

/// Counts the bytes of these ranges of addresses that lie in huge pages, by the text of `/proc/self/smaps`. A mapping that reaches
/// beyond a range counts with as much of its huge pages as the range could hold.
pub(crate) fn huge_bytes(smaps: &str, ranges: &[Range<u64>]) -> u64 {
    let (mut huge, mut room) = (0, 0);
    for line in smaps.lines() {
        let Some((name, rest)) = line.split_once([':', ' ']) else { continue };
        match name {
            "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" => {
                let number = rest.trim().strip_suffix(" kB").and_then(|number| number.parse::<u64>().ok());
                let bytes = number.unwrap_or(0).saturating_mul(1024).min(room);
                room -= bytes;
                huge += bytes;
            }
            _ => {
                if let Some(addresses) = addresses(name) {
                    room = ranges.iter().map(|range| overlap(range, &addresses)).sum();
                }
            }
        }
    }
    huge
}

/// Reads the addresses of a mapping, which its first line begins with: `7f0000000000-7f0000200000`.
fn addresses(word: &str) -> Option<Range<u64>> {
    let (start, end) = word.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some(number(start)?..number(end)?)
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> u64 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00400000-00500000 r-xp 00000000 08:01 11                 /bin/program
Size:               1024 kB
AnonHugePages:         0 kB
FilePmdMapped:      2048 kB
7f0000000000-7f0000a00000 r--p 00000000 08:01 12         /a folder/model: 1-2.gguf
Size:              10240 kB
AnonHugePages:         0 kB
FilePmdMapped:      6144 kB
VmFlags: rd mr mw me hg
7f0000a00000-7f0001000000 rw-p 00000000 00:00 0
Size:               6144 kB
AnonHugePages:      4096 kB
FilePmdMapped:         0 kB
7f0002000000-7f0002800000 r--s 00000000 00:1b 13         /dev/shm/model.gguf
Size:               8192 kB
ShmemPmdMapped:     6144 kB
FilePmdMapped:         0 kB
";

    #[test]
    fn huge_pages_count_where_they_are_in_the_ranges() {
        const START: u64 = 0x7f00_0000_0000;
        // In MB, from START.
        let huge = |ranges: &[[u64; 2]]| {
            let ranges: Vec<_> = ranges.iter().map(|[from, to]| START + (from << 20)..START + (to << 20)).collect();
            huge_bytes(SMAPS, &ranges) >> 20
        };
        assert_eq!(huge(&[[0, 10]]), 6);
        // Two files, and the last page of the first is not whole.
        assert_eq!(huge(&[[0, 9], [10, 16]]), 10);
        assert_eq!(huge(&[[10, 13]]), 3, "no more than lies in the range");
        assert_eq!(huge(&[[16, 32]]), 0);
        assert_eq!(huge(&[[32, 40]]), 6, "of a file in memory (tmpfs)");
        assert_eq!(huge(&[]), 0);
    }
}
