//! Single steps of x86-64's products for many inputs: packing, unpacking, tiles; and AMX where the processor has none.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]

mod amx;
mod attention;
mod batch;
#[path = "../cases/random.rs"]
mod random;
mod superblocks;

/// Prefetches depend on it.
#[test]
fn families_are_those_of_the_processors() {
    // EPYC 9004 (Zen 4), EPYC 9005 (Zen 5), Xeon 4th generation (Sapphire Rapids).
    assert_eq!([0x00a1_0f11, 0x00b0_0f21, 0x000c_06f2].map(candor_kernels::inside::x86::family), [0x19, 0x1a, 6]);
}
