//! How far prefetches run ahead of what streams from memory.

use std::arch::x86_64::*;
use std::sync::LazyLock;

/// Bytes that prefetches of weight rows run ahead: on Sapphire Rapids 0 cost a quarter of the speed, 4096 a seventh.
pub(crate) const ROWS: usize = 2048;

/// A distance from what is read now.
#[derive(Clone, Copy)]
pub(crate) struct Ahead(usize);

impl Ahead {
    /// `bytes`; 0 on the processors that are quicker by themselves, so that what is read anyway is asked for.
    pub(crate) fn new(bytes: usize) -> Ahead {
        // Zen 4 reads rows up to a fifth slower with prefetches of any distance; Zen 3 was not measured. Intel's processors
        // and Zen 5 (family 26) are faster with them.
        Ahead(if zen_3_or_4() { 0 } else { bytes })
    }

    /// Asks for the cache lines of as many bytes as a `T` has, be there anything or not.
    #[inline(always)]
    pub(crate) fn fetch<T>(self, from: &T) {
        let from = std::ptr::from_ref(from).cast::<i8>().wrapping_add(self.0);
        for line in 0..size_of::<T>().div_ceil(64) {
            // SAFETY: every x86-64 processor has the instruction, and it faults at no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(line * 64)) };
        }
    }

    /// The same of all these bytes. No closure: in a function with target features it would be called for each line.
    #[inline(always)]
    pub(crate) fn fetch_all(self, bytes: &[u8]) {
        for line in bytes.iter().step_by(64) {
            self.fetch(line);
        }
    }
}

/// Whether this is a Zen 3 or a Zen 4, of which the latter computes 512 bits in halves.
pub(crate) fn zen_3_or_4() -> bool {
    amd_family() == Some(0x19)
}

/// Whether this is a Zen 5.
pub(crate) fn zen_5() -> bool {
    amd_family() == Some(0x1a)
}

/// The family, if AMD made the processor.
fn amd_family() -> Option<u32> {
    static FAMILY: LazyLock<Option<u32>> = LazyLock::new(|| {
        let [vendor, version] = [0, 1].map(__cpuid);
        let amd = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"AuthenticAMD";
        amd.then(|| family(version.eax))
    });
    *FAMILY
}

/// The processor's family, from `eax` of CPUID's leaf 1 (AMD64 Architecture Programmer's Manual, volume 3, appendix E).
pub fn family(version: u32) -> u32 {
    let (family, extended) = (version >> 8 & 15, version >> 20 & 255);
    if family == 15 { family + extended } else { family }
}
