//! What is asked of the operating system directly: which processors a thread runs on, and huge pages. Linux alone has
//! these calls; elsewhere they are refused before they are made.

use std::fmt;

/// Something that was asked for and that this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    pub(crate) what: String,
    pub(crate) why: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for Unavailable {}

/// Where Linux says whether programs can have huge pages.
#[cfg(target_os = "linux")]
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Whether memory can have huge pages.
///
/// # Errors
/// [`Unavailable`] with the reason.
pub fn huge_pages() -> Result<(), Unavailable> {
    let refuse = |why: String| Err(Unavailable { what: "huge pages".into(), why });
    #[cfg(target_os = "linux")]
    match std::fs::read_to_string(HUGE_PAGES) {
        Ok(choices) if choices.contains("[never]") => {
            refuse(format!("the system has them switched off ({HUGE_PAGES} says never)"))
        }
        Ok(_) => Ok(()),
        Err(error) => refuse(format!("the system does not offer them ({HUGE_PAGES}: {error})")),
    }
    #[cfg(not(target_os = "linux"))]
    refuse("only Linux has them".into())
}

/// Asks for huge pages where `memory` spans any. Advice: a refusal costs speed and nothing else.
pub(crate) fn advise_huge<T>(memory: &mut [T]) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 4096;
        const HUGE: usize = 2 << 20;
        const MADV_HUGEPAGE: i32 = 14;
        let bytes = size_of_val(memory);
        let start = memory.as_mut_ptr().cast::<u8>();
        let skipped = start.align_offset(PAGE);
        if bytes < 2 * HUGE || skipped >= bytes {
            return;
        }
        // SAFETY: the range is whole pages inside a live allocation; pages of a kernel that has larger ones make the
        // call fail. The advice changes how the range is backed, not what it holds.
        unsafe { linux::madvise(start.add(skipped).cast(), (bytes - skipped) / PAGE * PAGE, MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// Lets the calling thread run on these processors alone.
pub(crate) fn keep_to(cpus: &[u32]) -> bool {
    #[cfg(target_os = "linux")]
    {
        const BITS: u32 = std::ffi::c_ulong::BITS;
        // The kernel's own set is no larger on any machine that there is.
        let mut mask = [0; 8192 / BITS as usize];
        for &cpu in cpus {
            if let Some(word) = mask.get_mut((cpu / BITS) as usize) {
                *word |= 1 << (cpu % BITS);
            }
        }
        // SAFETY: the mask is as long as is said, and 0 is the calling thread.
        unsafe { linux::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr()) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = cpus;
        false
    }
}

/// From the C library that the standard library brings.
#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{c_int, c_ulong, c_void};

    unsafe extern "C" {
        pub fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
        pub fn sched_setaffinity(thread: c_int, bytes: usize, mask: *const c_ulong) -> c_int;
    }
}
