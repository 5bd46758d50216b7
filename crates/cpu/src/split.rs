//! One output written by several threads, each its own cells.

use std::marker::PhantomData;
use std::ops::Range;

/// A mutable slice seen as rows of `width` elements, of which each thread takes its own columns.
///
/// This is the crate's only way to write one buffer from several threads.
pub(crate) struct Split<'a, T> {
    start: *mut T,
    rows: usize,
    width: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: a `Split` is a `&mut [T]` whose holders promise, by calling `cell`, to touch disjoint parts of it.
unsafe impl<T: Send> Send for Split<'_, T> {}
// SAFETY: as above; a shared reference hands out nothing but those disjoint parts.
unsafe impl<T: Send> Sync for Split<'_, T> {}

impl<'a, T> Split<'a, T> {
    /// Borrows `values`, whole rows of `width` elements.
    pub(crate) fn new(values: &'a mut [T], width: usize) -> Split<'a, T> {
        let rows = values.len().checked_div(width).unwrap_or(0);
        Split { start: values.as_mut_ptr(), rows, width, slice: PhantomData }
    }

    /// Some columns of a row.
    ///
    /// # Safety
    /// No two slices that overlap may be in use at the same time.
    ///
    /// # Panics
    /// If there is no such row, or no such columns.
    #[expect(clippy::mut_from_ref, reason = "disjointness is the caller's promise")]
    pub(crate) unsafe fn cell(&self, row: usize, columns: Range<usize>) -> &mut [T] {
        assert!(row < self.rows && columns.start <= columns.end && columns.end <= self.width);
        // SAFETY: the assertion keeps the range within the borrowed slice, and the caller keeps it disjoint from others.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.width + columns.start), columns.len()) }
    }
}
