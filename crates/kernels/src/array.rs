//! Arrays made element by element, of values that need no drop.
//!
//! `std::array::from_fn` and `map` drop what was made if a closure panics: about 150 and 270 lines of LLVM IR for every closure
//! and length. Kernels have thousands of these, a third of what the crate had to compile. Here an array takes 34 or 41 lines,
//! and the code that comes of it is the same.

use std::mem::MaybeUninit;

/// Makes an array of what `f` gives for each index, in order.
#[inline(always)]
pub fn of<T: Copy, const N: usize>(f: impl Fn(usize) -> T + Copy) -> [T; N] {
    let mut all = MaybeUninit::<[T; N]>::uninit();
    let mut i = 0;
    while i < N {
        // SAFETY: an array has its elements one after the other, and `i` is one's index.
        unsafe { all.as_mut_ptr().cast::<T>().wrapping_add(i).write(f(i)) };
        // Below `N`: a check would be as many lines as all else in the loop.
        i = i.wrapping_add(1);
    }
    // SAFETY: every element has been written.
    unsafe { all.assume_init() }
}

/// As `map`, of arrays.
pub trait Each<T, const N: usize> {
    /// Makes an array of what `f` gives for each element, in order.
    fn each<U: Copy>(self, f: impl Fn(T) -> U + Copy) -> [U; N];
}

impl<T: Copy, const N: usize> Each<T, N> for [T; N] {
    #[inline(always)]
    fn each<U: Copy>(self, f: impl Fn(T) -> U + Copy) -> [U; N] {
        let mut all = MaybeUninit::<[U; N]>::uninit();
        let mut i = 0;
        while i < N {
            // SAFETY: as in `of`.
            unsafe { all.as_mut_ptr().cast::<U>().wrapping_add(i).write(f(self[i])) };
            i = i.wrapping_add(1);
        }
        // SAFETY: every element has been written.
        unsafe { all.assume_init() }
    }
}
