//! Single instructions, the processor's or emulated, against a plain formula. What this holds of the emulator on this
//! machine it holds of the processor on one with AMX.

use std::arch::asm;

use candor_kernels::inside::fma;
use candor_kernels::inside::x86::batch::{Engine, Tiles};

use super::amx;
use crate::batch::random::Random;

/// What `ldtilecfg` reads: tiles 0 to 2, for sums of `m` x `n` and `k` pairs.
#[repr(C, align(64))]
struct Config([u8; 64]);

impl Config {
    fn new(m: usize, n: usize, k: usize) -> Config {
        let mut bytes = [0; 64];
        bytes[0] = 1;
        for (tile, (rows, row)) in [(m, n), (m, k), (k, n)].into_iter().enumerate() {
            bytes[16 + 2 * tile] = 4 * row as u8;
            bytes[48 + tile] = rows as u8;
        }
        Config(bytes)
    }
}

/// `sums[m][n] += a[m][k] . b[k][n]` by the instructions; rows of every matrix are 20 dwords apart. With `anew`, sums
/// begin with zero.
fn by_instructions(sums: &mut [u32], a: &[u32], b: &[u32], (m, n, k): (usize, usize, usize), anew: bool) {
    let config = Config::new(m, n, k);
    assert!(sums.len() >= m * 20 && a.len() >= m * 20 && b.len() >= k * 20);
    // SAFETY: `amx` found or installed the instructions; matrices are as long as the assertion says.
    unsafe {
        asm!(
            "ldtilecfg [{config}]",
            "tilezero tmm0",
            "test {anew:e}, {anew:e}",
            "jnz 2f",
            "tileloadd tmm0, [{sums} + {stride}*4]",
            "2:",
            "tileloadd tmm1, [{a} + {stride}*4 - 64]",
            "tileloaddt1 tmm2, [{b} + {stride}*4]",
            "tdpbf16ps tmm0, tmm1, tmm2",
            "tilestored [{sums} + {stride}*4], tmm0",
            "tilerelease",
            config = in(reg) &raw const config,
            anew = in(reg) u32::from(anew),
            sums = in(reg) sums.as_mut_ptr(),
            a = in(reg) a.as_ptr().wrapping_add(16),
            b = in(reg) b.as_ptr(),
            stride = in(reg) 20usize,
            out("tmm0") _, out("tmm1") _, out("tmm2") _,
            options(nostack),
        );
    }
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// The manual's sums.
fn by_formula(sum: u32, a: &[u32], b: impl Iterator<Item = u32>) -> u32 {
    let number = |pair: u32, half: u32| flush(f32::from_bits(pair >> (16 * half) << 16));
    let mut lanes = [0.0; 2];
    for (&a, b) in a.iter().zip(b) {
        for half in 0..2 {
            lanes[half as usize] = flush(fma(number(a, half), number(b, half), lanes[half as usize]));
        }
    }
    flush(flush(f32::from_bits(sum)) + flush(lanes[0] + lanes[1])).to_bits()
}

/// A kind of dwords.
type Kind<'a> = &'a dyn Fn(&mut Random) -> u32;

fn check(shape: (usize, usize, usize), anew: bool, case: &str, [of_a, of_b, of_sums]: [Kind<'_>; 3]) {
    let (m, n, k) = shape;
    let mut random = Random::new((m * 10_000 + n * 100 + k) as u64);
    let mut matrix =
        |rows: usize, number: Kind<'_>| -> Vec<u32> { (0..rows * 20).map(|_| number(&mut random)).collect() };
    let (a, b) = (matrix(m, of_a), matrix(k, of_b));
    let mut sums = matrix(17, of_sums);
    let before = sums.clone();
    by_instructions(&mut sums, &a, &b, shape, anew);
    for (i, (&got, &old)) in sums.iter().zip(&before).enumerate() {
        let (row, column) = (i / 20, i % 20);
        let inside = row < m && column < n;
        let expected = match inside {
            true => by_formula(if anew { 0 } else { old }, &a[row * 20..][..k], (0..k).map(|p| b[p * 20 + column])),
            false => old,
        };
        let [x, y] = [got, expected].map(f32::from_bits);
        assert!(got == expected || (inside && x.is_nan() && y.is_nan()), "{case} {shape:?} [{row}][{column}]: {x} {y}");
    }
}

fn word(x: f32) -> u32 {
    u32::from(candor_quant::half::f32_to_bf16(x))
}

#[test]
fn instructions_do_what_the_manual_says() {
    if amx().is_none() {
        return;
    }
    fn pair(mut number: impl FnMut() -> u32) -> u32 {
        number() | number() << 16
    }
    let numbers: Kind<'_> = &|random| pair(|| word(random.signed() * 30.0));
    let whole: Kind<'_> = &|random| pair(|| word((random.bits() % 64) as f32 - 32.0));
    let any: Kind<'_> = &Random::bits;
    let large: Kind<'_> = &|random| pair(|| word(random.signed() * 2f32.powi(20)));
    let denormal: Kind<'_> = &|random| pair(|| random.bits() & 0x807f);
    // Products of these, and differences of products, are in and around the denormal range.
    let root: Kind<'_> = &|random| pair(|| word(random.signed() * 2f32.powi(-62)));
    let least: Kind<'_> = &|random| (random.signed() * 8.0 * f32::MIN_POSITIVE).to_bits();
    for shape in [(16, 16, 16), (1, 1, 1), (3, 5, 7), (16, 1, 9), (9, 16, 2)] {
        for anew in [false, true] {
            check(shape, anew, "numbers", [numbers; 3]);
            check(shape, anew, "whole numbers", [whole; 3]);
            check(shape, anew, "infinities, no numbers, largest ones", [any; 3]);
            check(shape, anew, "denormal on the left", [denormal, large, least]);
            check(shape, anew, "denormal on the right", [large, denormal, least]);
            check(shape, anew, "denormal results", [root, root, least]);
        }
    }
}

/// The configuration of this thread's tiles.
fn configuration() -> [u8; 64] {
    let mut config = Config([0xff; 64]);
    // SAFETY: `amx` found or installed the instruction, which writes 64 bytes.
    unsafe { asm!("sttilecfg [{}]", in(reg) &raw mut config, options(nostack)) };
    config.0
}

#[test]
fn tiles_are_configured_as_long_as_their_guard_lives() {
    if amx().is_none() {
        return;
    }
    assert_eq!(configuration(), [0; 64]);
    // SAFETY: `amx` found or installed the instructions; this is the only guard of the thread.
    let tiles = unsafe { Tiles::ready() };
    let config = configuration();
    assert_eq!((config[0], &config[16..18], &config[48..56]), (1, &[64, 0][..], &[16; 8][..]));
    drop(tiles);
    assert_eq!(configuration(), [0; 64], "released");
}

/// Integers have one sum, in whatever order.
#[test]
fn tiles_multiply_matrices() {
    if amx().is_none() {
        return;
    }
    let (a, b): (Vec<i32>, Vec<i32>) =
        ((0..16 * 32).map(|i| i % 23 - 11).collect(), (0..32 * 16).map(|i| i % 19 - 9).collect());
    let (mut a_tile, mut b_tile) = ([0u32; 16 * 20], [0u32; 16 * 20]);
    for row in 0..16 {
        for column in 0..16 {
            for half in 0..2 {
                a_tile[row * 20 + column] |= word(a[row * 32 + 2 * column + half] as f32) << (16 * half);
                b_tile[row * 20 + column] |= word(b[(2 * row + half) * 16 + column] as f32) << (16 * half);
            }
        }
    }
    let mut sums = [0; 16 * 20];
    by_instructions(&mut sums, &a_tile, &b_tile, (16, 16, 16), true);
    for (m, n) in (0..256).map(|i| (i / 16, i % 16)) {
        let expected: i32 = (0..32).map(|k| a[m * 32 + k] * b[k * 16 + n]).sum();
        assert_eq!(f32::from_bits(sums[m * 20 + n]), expected as f32, "[{m}][{n}]");
    }
}
