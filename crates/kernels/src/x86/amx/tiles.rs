//! The tile registers: configured for a thread, and products of 32 weight rows with 16 or 32 inputs in them.
//!
//! A product is one block of assembly from its first tile to its last, so that no tile register has to keep anything
//! between two statements of Rust. What does last from statement to statement is their configuration: nothing but this
//! file touches it, the compiler emits no tile instruction unless asked, and the system saves and restores it with the
//! rest of a thread's registers.

use std::arch::asm;
use std::marker::PhantomData;

use crate::Line;
use crate::array;
use crate::x86::batch::{Begin, Engine, Form, Operands, SUMS, TILE};

/// What `ldtilecfg` reads.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Eight tiles of 16 rows of 64 bytes.
static CONFIG: Config = Config {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Tile registers that are configured for this thread, until dropped.
pub struct Tiles(PhantomData<*const ()>);

impl Engine for Tiles {
    /// A guess: not measured.
    const LEAST: usize = 16;
    type Ready = Tiles;

    unsafe fn ready() -> Tiles {
        // SAFETY: the caller has AMX; `CONFIG` is 64 bytes of a valid configuration.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack, preserves_flags)) };
        Tiles(PhantomData)
    }

    unsafe fn multiply(_: &Tiles, sums: &mut [Line; SUMS], operands: Operands<'_>, form: Form, begin: Begin) {
        let Operands { w, x, steps, .. } = operands;
        let halves = form.halves();
        assert!(steps > 0 && w.len() == steps * halves * 2 * TILE, "{} lines of weights", w.len());
        let wide = x.len() == steps * halves * 2 * TILE;
        assert!(wide || x.len() == steps * halves * TILE, "{} lines of inputs", x.len());
        let product = match (form, wide) {
            (Form::Bf16, true) => wide_one,
            (Form::Bf16, false) => narrow_one,
            (Form::TwoBf16, true) => wide_two,
            (Form::TwoBf16, false) => narrow_two,
            (Form::F32, _) => unreachable!("no format that AMX takes stays in floats"),
        };
        // SAFETY: `Tiles` says that the tiles are configured, the assertions that `w` and `x` are as long as is read;
        // `sums` is as long as what the widest of the four reads and writes.
        unsafe { product(sums.as_mut_ptr(), operands, begin) };
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the code that configured the tiles had AMX.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags)) };
    }
}

/// Multiplies tiles of bfloat16 and does nothing else. Returns the number of operations.
///
/// # Safety
/// The processor has AMX with bfloat16, and no `Tiles` lives in this thread.
pub unsafe fn probe(rounds: u32) -> u64 {
    /// Four products of 16 x 16 sums over 32 columns, each multiplied and added.
    const OPERATIONS: u64 = 4 * 2 * 16 * 16 * 32;
    // Numbers between 1 and 4: processors multiply zeros faster.
    let operands: [Line; 4 * TILE] = array::of(|i| Line([0x3f80_4040 + 0x0001_0003 * i as u32; 16]));
    if rounds == 0 {
        return 0;
    }
    // SAFETY: the caller has AMX.
    let tiles = unsafe { Tiles::ready() };
    // SAFETY: the tiles are configured, and `operands` is as long as four of them.
    unsafe {
        asm!(
            "tileloadd tmm4, [{x} + {s}]",
            "tileloadd tmm5, [{x} + {s} + 1024]",
            "tileloadd tmm6, [{x} + {s} + 2048]",
            "tileloadd tmm7, [{x} + {s} + 3072]",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "dec {rounds:e}",
            "jnz 2b",
            x = in(reg) operands.as_ptr(),
            s = in(reg) 64usize,
            rounds = inout(reg) rounds => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, readonly),
        );
    }
    drop(tiles);
    u64::from(rounds) * OPERATIONS
}

/// A loop over steps between loads of the sums, or zeros, and stores of them. `w` and `x` are bytes per step.
///
/// Inputs are loaded with the hint that the first-level cache is not for them: it holds the weights.
macro_rules! product {
    ($name:ident:
        zero [$($zero:literal)*] load [$($load:literal)*] store [$($store:literal)*]
        step [$($step:expr)*] w $w:literal x $x:literal
    ) => {
        /// # Safety
        /// Tiles are configured; `sums`, `w` and `x` are as long as the instructions below say.
        unsafe fn $name(sums: *mut Line, Operands { w, x, steps, ahead }: Operands<'_>, begin: Begin) {
            // SAFETY: what is read and written is what the caller promises; a prefetch may go anywhere.
            unsafe {
                asm!(
                    "test {anew:e}, {anew:e}",
                    "jnz 3f",
                    $($load,)*
                    "jmp 2f",
                    "3:",
                    $($zero,)*
                    "2:",
                    $($step,)*
                    "prefetcht0 [{ahead}]",
                    "prefetcht0 [{ahead} + 64]",
                    "prefetcht0 [{ahead} + 128]",
                    "prefetcht0 [{ahead} + 192]",
                    "add {ahead}, 256",
                    concat!("add {w}, ", $w),
                    concat!("add {x}, ", $x),
                    "dec {steps}",
                    "jnz 2b",
                    $($store,)*
                    anew = in(reg) begin as u32,
                    c = in(reg) sums,
                    s = in(reg) 64usize,
                    w = inout(reg) w.as_ptr() => _,
                    x = inout(reg) x.as_ptr() => _,
                    steps = inout(reg) steps => _,
                    ahead = inout(reg) ahead => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

product! { wide_one:
    zero ["tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3"]
    load [
        "tileloadd tmm0, [{c} + {s}]"
        "tileloadd tmm1, [{c} + {s} + 1024]"
        "tileloadd tmm2, [{c} + {s} + 2048]"
        "tileloadd tmm3, [{c} + {s} + 3072]"
    ]
    store [
        "tilestored [{c} + {s}], tmm0"
        "tilestored [{c} + {s} + 1024], tmm1"
        "tilestored [{c} + {s} + 2048], tmm2"
        "tilestored [{c} + {s} + 3072], tmm3"
    ]
    step [
        "tileloaddt1 tmm6, [{x} + {s}]"
        "tileloadd tmm4, [{w} + {s}]"
        "tdpbf16ps tmm0, tmm4, tmm6"
        "tileloaddt1 tmm7, [{x} + {s} + 1024]"
        "tileloadd tmm5, [{w} + {s} + 1024]"
        "tdpbf16ps tmm2, tmm5, tmm6"
        "tdpbf16ps tmm1, tmm4, tmm7"
        "tdpbf16ps tmm3, tmm5, tmm7"
    ]
    w "2048" x "2048"
}

product! { narrow_one:
    zero ["tilezero tmm0" "tilezero tmm2"]
    load ["tileloadd tmm0, [{c} + {s}]" "tileloadd tmm2, [{c} + {s} + 2048]"]
    store ["tilestored [{c} + {s}], tmm0" "tilestored [{c} + {s} + 2048], tmm2"]
    step [
        "tileloaddt1 tmm6, [{x} + {s}]"
        "tileloadd tmm4, [{w} + {s}]"
        "tdpbf16ps tmm0, tmm4, tmm6"
        "tileloadd tmm5, [{w} + {s} + 1024]"
        "tdpbf16ps tmm2, tmm5, tmm6"
    ]
    w "2048" x "1024"
}

/// A step of two halves: large `w` with small `x`, large with large, small with large.
macro_rules! step_of_halves {
    () => {
        concat!(
            "tileloaddt1 tmm6, [{x} + {s} + 2048]\n",
            "tileloadd tmm4, [{w} + {s}]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tileloaddt1 tmm7, [{x} + {s} + 3072]\n",
            "tileloadd tmm5, [{w} + {s} + 1024]\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            "tileloaddt1 tmm6, [{x} + {s}]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tileloaddt1 tmm7, [{x} + {s} + 1024]\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
            "tileloadd tmm4, [{w} + {s} + 2048]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tileloadd tmm5, [{w} + {s} + 3072]\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
        )
    };
}

product! { wide_two:
    zero ["tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3"]
    load [
        "tileloadd tmm0, [{c} + {s}]"
        "tileloadd tmm1, [{c} + {s} + 1024]"
        "tileloadd tmm2, [{c} + {s} + 2048]"
        "tileloadd tmm3, [{c} + {s} + 3072]"
    ]
    store [
        "tilestored [{c} + {s}], tmm0"
        "tilestored [{c} + {s} + 1024], tmm1"
        "tilestored [{c} + {s} + 2048], tmm2"
        "tilestored [{c} + {s} + 3072], tmm3"
    ]
    step [
step_of_halves!()
    ]
    w "4096" x "4096"
}

product! { narrow_two:
    zero ["tilezero tmm0" "tilezero tmm2"]
    load ["tileloadd tmm0, [{c} + {s}]" "tileloadd tmm2, [{c} + {s} + 2048]"]
    store ["tilestored [{c} + {s}], tmm0" "tilestored [{c} + {s} + 2048], tmm2"]
    step [
        "tileloaddt1 tmm7, [{x} + {s} + 1024]"
        "tileloadd tmm4, [{w} + {s}]"
        "tdpbf16ps tmm0, tmm4, tmm7"
        "tileloadd tmm5, [{w} + {s} + 1024]"
        "tdpbf16ps tmm2, tmm5, tmm7"
        "tileloaddt1 tmm6, [{x} + {s}]"
        "tdpbf16ps tmm0, tmm4, tmm6"
        "tdpbf16ps tmm2, tmm5, tmm6"
        "tileloadd tmm4, [{w} + {s} + 2048]"
        "tdpbf16ps tmm0, tmm4, tmm6"
        "tileloadd tmm5, [{w} + {s} + 3072]"
        "tdpbf16ps tmm2, tmm5, tmm6"
    ]
    w "4096" x "2048"
}

/// `c[i][j] = a[i] . b[j]` for 32 rows of each, in two halves; rows of `c` are `stride` floats apart.
///
/// Steps lie in `a` and `b` as in the weights and inputs of a product of [`Form::TwoBf16`].
///
/// # Safety
/// 32 floats of each of `c`'s 32 rows are writable.
pub unsafe fn multiply_halves(_: &Tiles, (c, stride): (*mut f32, usize), a: &[Line], b: &[Line]) {
    let steps = a.len() / (4 * TILE);
    assert!(steps > 0 && a.len() == steps * 4 * TILE && b.len() == a.len(), "{} and {} lines", a.len(), b.len());
    // SAFETY: `Tiles` says that the tiles are configured, the assertion that `a` and `b` are as long as is read, and the
    // caller that `c` is as long as is written.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            step_of_halves!(),
            "add {w}, 4096",
            "add {x}, 4096",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{c} + {stride}], tmm0",
            "tilestored [{c} + {stride} + 64], tmm1",
            "tilestored [{lower} + {stride}], tmm2",
            "tilestored [{lower} + {stride} + 64], tmm3",
            c = in(reg) c,
            lower = in(reg) c.wrapping_add(TILE * stride),
            stride = in(reg) 4 * stride,
            s = in(reg) 64usize,
            w = inout(reg) a.as_ptr() => _,
            x = inout(reg) b.as_ptr() => _,
            steps = inout(reg) steps => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
