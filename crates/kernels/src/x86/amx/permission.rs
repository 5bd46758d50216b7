//! Whether the operating system saves the tile registers, and lets this process use them.

use std::arch::x86_64::_xgetbv;

/// Whether tile configuration (bit 17) and tile data (bit 18) are among the states that the system saves.
pub fn state_is_saved() -> bool {
    const TILES: u64 = 0b11 << 17;
    /// Bit 27 of leaf 1's ECX: the system has enabled `xgetbv`.
    const OSXSAVE: u32 = 1 << 27;
    if std::arch::x86_64::__cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    // SAFETY: the processor has `xgetbv` and the system has enabled it.
    unsafe { _xgetbv(0) & TILES == TILES }
}

/// Asks Linux (5.16 and later) for permission to use tile data, for all threads of the process. Asking again is free.
#[cfg(target_os = "linux")]
pub fn ask() -> bool {
    const ARCH_PRCTL: isize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const TILE_DATA: usize = 18;
    let result: isize;
    // SAFETY: the call reads and writes no memory of this process; rcx and r11 are what `syscall` overwrites.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// How other systems give permission is not known here: they do without tiles.
#[cfg(not(target_os = "linux"))]
pub fn ask() -> bool {
    false
}
