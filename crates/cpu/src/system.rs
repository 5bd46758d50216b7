//! What is asked of the operating system directly: which processors a thread runs on, huge pages, and, where no file says it,
//! how much memory is free. Linux alone has the first two; elsewhere they are refused before they are made.

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

/// Bytes of this machine's memory that programs can still take; `None` where it cannot be asked.
#[cfg(not(target_os = "linux"))]
pub(crate) fn free_memory() -> Option<u64> {
    #[cfg(target_vendor = "apple")]
    return apple::free();
    #[cfg(windows)]
    return windows::free();
    #[cfg(not(any(target_vendor = "apple", windows)))]
    None
}

/// From the library that every program of the system has.
#[cfg(target_vendor = "apple")]
mod apple {
    use std::ffi::{c_int, c_uint};

    /// The flavor of `host_statistics64` that gives `vm_statistics64`, whose first words are the pages that are free, active,
    /// inactive and wired.
    const VM_INFO64: c_int = 4;

    unsafe extern "C" {
        fn mach_host_self() -> c_uint;
        fn host_page_size(host: c_uint, bytes: *mut usize) -> c_int;
        fn host_statistics64(host: c_uint, flavor: c_int, words: *mut c_uint, count: *mut c_uint) -> c_int;
    }

    /// Free pages, and inactive ones, which are given up first.
    pub(super) fn free() -> Option<u64> {
        // More than any version of the structure has; the system says how many it filled.
        let mut words: [c_uint; 128] = [0; 128];
        let (mut count, mut bytes) = (words.len() as c_uint, 0);
        // SAFETY: the pointers are to live variables, and the array is as long as `count` says.
        let done = unsafe {
            let host = mach_host_self();
            host_page_size(host, &mut bytes) == 0
                && host_statistics64(host, VM_INFO64, words.as_mut_ptr(), &mut count) == 0
        };
        (done && count > 2).then(|| (u64::from(words[0]) + u64::from(words[2])) * bytes as u64)
    }
}

/// From the library that every program of the system has.
#[cfg(windows)]
mod windows {
    /// `MEMORYSTATUSEX`.
    #[repr(C)]
    #[derive(Default)]
    struct Status {
        length: u32,
        load: u32,
        total_physical: u64,
        free_physical: u64,
        total_page_file: u64,
        free_page_file: u64,
        total_virtual: u64,
        free_virtual: u64,
        free_extended: u64,
    }

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GlobalMemoryStatusEx(status: *mut Status) -> i32;
    }

    /// Physical memory that is free, as far as the page file lets it be promised.
    pub(super) fn free() -> Option<u64> {
        let mut status = Status { length: size_of::<Status>() as u32, ..Status::default() };
        // SAFETY: the structure is live and says how long it is.
        let done = unsafe { GlobalMemoryStatusEx(&mut status) } != 0;
        done.then(|| status.free_physical.min(status.free_page_file))
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
