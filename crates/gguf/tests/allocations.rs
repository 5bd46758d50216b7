//! Counts that a file only claims cost no memory: the largest allocation while opening is bounded by the file's size.

use candor_gguf::Gguf;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, remembering the largest request.
struct Largest(AtomicUsize);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Largest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static LARGEST: Largest = Largest(AtomicUsize::new(0));

#[test]
fn the_largest_allocation_is_bounded() {
    const REST: usize = 1 << 20;
    const BOOL: u32 = 7;
    const STRING: u32 = 8;
    const ARRAY: u32 = 9;
    const F64: u32 = 12;
    let head = |tensors: u64, keys: u64| {
        [b"GGUF", &3u32.to_le_bytes()[..], &tensors.to_le_bytes(), &keys.to_le_bytes()].concat()
    };
    let value = |kind: u32| [&head(0, 1)[..], &1u64.to_le_bytes(), b"k", &kind.to_le_bytes()].concat();
    let array = |kind: u32, count: u64| [&value(ARRAY)[..], &kind.to_le_bytes(), &count.to_le_bytes()].concat();
    // Each count is the largest that the rest of the file could hold.
    let most = |least: usize| (REST / least) as u64;
    let cases = [
        ("tensors", head(most(24), 0)),
        ("keys", head(0, most(13))),
        ("strings", array(STRING, most(8))),
        ("arrays", array(ARRAY, most(12))),
        ("string", [&value(STRING)[..], &(REST as u64).to_le_bytes()].concat()),
        ("bools", array(BOOL, most(1))),
        ("f64s, which are fine", array(F64, most(8))),
        ("2^60 strings", array(STRING, 1 << 60)),
    ];
    for (what, mut file) in cases {
        file.resize(file.len() + REST, 0xff);
        let file = file.into();
        LARGEST.0.store(0, Ordering::Relaxed);
        let opened = Gguf::from_bytes(file);
        let largest = LARGEST.0.load(Ordering::Relaxed);
        assert!(opened.is_err() || what.starts_with("f64s"), "{what}: opened");
        // A String takes three times the eight bytes of its length in the file.
        assert!(largest <= 3 * REST + 4096, "{what}: {largest} bytes for a file of {REST}");
    }
}
