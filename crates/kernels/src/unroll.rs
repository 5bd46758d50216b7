//! Loops that must become straight code.

/// Repeats a block for a constant from 0 to 7, or for the given ones: as a loop it may stay one.
///
/// A condition on the constant is best an `if const { … }`: what a block does not need is then left out before LLVM sees it.
macro_rules! unroll {
    ($k:ident, $body:block) => {
        unroll!($k, $body, 0 1 2 3 4 5 6 7)
    };
    ($k:ident, $body:block, $($value:literal)*) => {
        $({
            const $k: usize = $value;
            $body
        })*
    };
}
pub(crate) use unroll;
