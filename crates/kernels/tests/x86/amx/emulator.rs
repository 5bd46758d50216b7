//! AMX in software, for tests on machines without it: a handler of SIGILL decodes the instruction that the processor
//! refused, carries it out as Intel's manual says (Software Developer's Manual, volume 2), and goes on after it. So the
//! very machine code of the kernels is run. Not a model of speed, and not of exceptions: what the processor would answer
//! with an exception ends the program with a message.

// By their paths, since other crates' tests include this file from where they are.
#[path = "emulator/decode.rs"]
mod decode;
#[path = "emulator/execute.rs"]
mod execute;

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Once;

use decode::{LONGEST, decode};
use execute::{Registers, Tiles};

thread_local! {
    /// Constant and without a destructor: the handler may touch it wherever it interrupts.
    static TILES: UnsafeCell<Tiles> = const { UnsafeCell::new(Tiles::RELEASED) };
}

/// Makes tile instructions work in every thread of this process.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: all zeros is a valid `sigaction`, and `handler` has the signature that SA_SIGINFO asks for.
        let result = unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut())
        };
        assert_eq!(result, 0, "sigaction");
    });
}

/// The numbers that instructions give to registers, as places in `gregs`.
const ORDER: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes the context of the interrupted code, which nothing else sees.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let gregs = &mut context.uc_mcontext.gregs;
    let at = gregs[libc::REG_RIP as usize];
    // SAFETY: the processor has just fetched an instruction there; as many bytes follow within the program's code, which
    // does not end with one of ours.
    let code = unsafe { &*(at as *const [u8; LONGEST]) };
    let Some((instruction, length)) = decode(code) else { give_up("not an instruction of AMX") };
    let registers =
        Registers { general: ORDER.map(|place| gregs[place as usize] as usize), next: at as usize + length };
    // SAFETY: the tiles of this thread, which only this handler touches; it does not interrupt itself. Addresses are
    // those that the interrupted code vouches for.
    let result = TILES.with(|tiles| unsafe { (*tiles.get()).execute(instruction, &registers) });
    if let Err(why) = result {
        give_up(why);
    }
    gregs[libc::REG_RIP as usize] += length as i64;
}

/// Ends the program: nothing else is allowed within a handler.
fn give_up(why: &str) -> ! {
    for part in ["SIGILL: ", why, "\n"] {
        // SAFETY: `part` is that many readable bytes.
        unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: always allowed.
    unsafe { libc::abort() }
}
