//! The kernels as machine code: on a processor with AMX as it is, elsewhere with `emulator` behind the instructions.

mod emulator;
mod instructions;

use candor_kernels::Kernels;
use candor_kernels::inside::x86::{Amx, Avx512Bf16};

/// A token for this test, and the word on what runs it; `None` where not even AVX-512 with bfloat16 is there.
///
/// Outside of tests there is no other token than that of `Amx::detect`.
pub fn amx() -> Option<Amx> {
    if let Some(amx) = Amx::detect() {
        eprintln!("tile instructions: the processor's");
        return Some(amx);
    }
    let below = Avx512Bf16::detect();
    match below {
        Some(_) => eprintln!("tile instructions: emulated"),
        None => eprintln!("skipped: this processor has no AVX-512 with bfloat16"),
    }
    emulator::install();
    // SAFETY: the emulator does what the processor does not.
    below.map(|below| unsafe { Amx::emulated(below) })
}

#[test]
fn the_table_is_there_with_the_processor_alone() {
    let listed = Kernels::available().any(|table| table.name == "amx");
    assert_eq!(listed, Amx::detect().is_some());
    if std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|info| !info.contains("amx_bf16")) {
        assert!(!listed);
    }
    let Some(amx) = amx() else { return };
    let table = amx.kernels();
    assert_eq!(table.name, "amx");
    for &format in candor_quant::Format::ALL {
        let below = (Avx512Bf16::detect().expect("amx() said so").kernels().mat)(format);
        assert_eq!((table.mat)(format).is_some(), below.is_some(), "{format}: rows are those of the table below");
        assert_eq!((table.batch)(format).is_some(), below.is_some(), "{format}: what has rows has tiles");
    }
}
