//! Arrays made element by element are those of the standard library.

use std::array::from_fn;

use candor_kernels::inside::array::{Each, of};

fn check<const N: usize>() {
    let numbers: [u32; N] = of(|i| i as u32 * 3);
    assert_eq!(numbers, from_fn(|i| i as u32 * 3));
    // Of another size than the elements that they are made from.
    let pairs = numbers.each(|number| (u64::from(number), [1u8; 3]));
    assert_eq!(pairs, numbers.map(|number| (u64::from(number), [1u8; 3])));
    let references: [&u32; N] = of(|i| &numbers[N - 1 - i]);
    assert_eq!(references.each(|number| *number), from_fn(|i| numbers[N - 1 - i]));
}

#[test]
fn they_are_those_of_the_standard_library() {
    check::<0>();
    check::<1>();
    check::<2>();
    check::<16>();
    check::<33>();
}

#[test]
fn elements_are_made_in_order_and_once() {
    let made = std::cell::RefCell::new(Vec::new());
    let _: [(); 4] = of(|i| made.borrow_mut().push(i));
    let _ = [4, 5, 6].each(|element| made.borrow_mut().push(element));
    assert_eq!(made.into_inner(), [0, 1, 2, 3, 4, 5, 6]);
}

// In WebAssembly a panic ends the program.
#[cfg(panic = "unwind")]
#[test]
fn a_panic_passes_through() {
    let caught = std::panic::catch_unwind(|| -> [u8; 4] {
        of(|i| {
            assert!(i < 2, "the third");
            i as u8
        })
    });
    assert!(caught.is_err());
}
