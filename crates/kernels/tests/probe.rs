//! The probes of every table that the machine has: they read everything, and they take the time that they say.

use std::time::{Duration, Instant};

use candor_kernels::Kernels;

fn expected(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder().iter().map(|&byte| u64::from(byte)).sum::<u64>();
    words.fold(rest, |sum, word| sum.wrapping_add(u64::from_le_bytes(word.try_into().unwrap())))
}

#[test]
fn every_byte_is_read_once() {
    let mut state = 1u32;
    let bytes: Vec<u8> = (0..10_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    // Miri takes a thousand times as long.
    let short = if cfg!(miri) { 150 } else { 600 };
    for table in Kernels::available() {
        for len in (0..short).chain([1024, 2048, 4095, 4096, 4097, 9999]) {
            for start in [0, 1, 3] {
                let bytes = &bytes[start..(start + len).min(bytes.len())];
                for read in table.probe.reads {
                    assert_eq!(read(bytes), expected(bytes), "{}: {len} bytes from {start}", table.name);
                }
            }
        }
    }
}

/// Twice the rounds are twice the operations and about twice the time, so the compiler has removed nothing.
#[test]
#[cfg_attr(miri, ignore = "takes times")]
fn rounds_are_counted_and_take_time() {
    for table in Kernels::available() {
        let multiply = table.probe.multiply;
        assert_eq!(multiply(0), 0, "{}", table.name);
        let one = multiply(1);
        assert!(one > 0 && multiply(1000) == 1000 * one, "{}", table.name);
        let time = |rounds| {
            let run = || {
                let started = Instant::now();
                multiply(rounds);
                started.elapsed()
            };
            (0..5).map(|_| run()).min().unwrap()
        };
        let (short, long) = (time(1 << 17), time(1 << 21));
        // 16 times the rounds; half of that is left to a busy machine.
        assert!(short > Duration::from_nanos(100) && long > short * 8, "{}: {short:?}, {long:?}", table.name);
        // No core of today multiplies and adds 2^13 bytes in a nanosecond.
        let rate = (u64::from(1u32 << 21) * one) as f64 / long.as_nanos() as f64;
        assert!(rate < 16384.0, "{}: {rate} operations per nanosecond", table.name);
    }
}
