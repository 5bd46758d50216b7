//! Encoders of block formats, eight groups side by side: `candor_quant`'s own, with a register for the lanes. Same bytes.

use std::arch::x86_64::*;
use std::ops::{Add, Div, Mul, Sub};

use candor_quant::lanes::Lanes;
use candor_quant::{Format, blocks};

use crate::Encode;

/// The encoders that gain by lanes or by instructions.
pub fn encoder(format: Format) -> Option<Encode> {
    match format {
        Format::Q8_0 => Some(encode::<blocks::Q8_0>),
        Format::Q2K => Some(encode::<blocks::Q2K>),
        Format::Q3K => Some(encode::<blocks::Q3K>),
        Format::Q4K => Some(encode::<blocks::Q4K>),
        Format::Q5K => Some(encode::<blocks::Q5K>),
        Format::Q6K => Some(encode::<blocks::Q6K>),
        Format::Iq2Xxs => Some(encode::<blocks::Iq2Xxs>),
        Format::Iq2Xs => Some(encode::<blocks::Iq2Xs>),
        Format::Iq3Xxs => Some(encode::<blocks::Iq3Xxs>),
        Format::Iq1S => Some(encode::<blocks::Iq1S>),
        Format::Iq3S => Some(encode::<blocks::Iq3S>),
        Format::Iq2S => Some(encode::<blocks::Iq2S>),
        Format::Iq4Xs => Some(encode::<blocks::Iq4Xs>),
        Format::Iq1M => Some(encode::<blocks::Iq1M>),
        Format::Mxfp4 => Some(encode::<blocks::Mxfp4>),
        Format::Nvfp4 => Some(encode::<blocks::Nvfp4>),
        _ => None,
    }
}

fn encode<T: blocks::Encode>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
    #[target_feature(enable = "avx2,f16c")]
    fn compiled<T: blocks::Encode>(values: &[f32], importance: Option<&[f32]>, bytes: &mut [u8]) {
        T::encode::<Eight>(values, importance, bytes);
    }
    // SAFETY: only the table leads here, and only an `Avx2` to the table: the processor has these features.
    unsafe { compiled::<T>(values, importance, bytes) }
}

/// Eight floats in a register. FMA is left off: contraction would change bits.
#[derive(Clone, Copy)]
struct Eight(__m256);

/// Intrinsics where the features are on, though a trait's functions can't say so.
macro_rules! avx2 {
    ($of:expr) => {
        // SAFETY: this type is private, and only `compiled`, which has the features, computes with it.
        unsafe { $of }
    };
}

macro_rules! operators {
    ($($operator:ident::$name:ident $intrinsic:ident,)*) => {
        $(impl $operator for Eight {
            type Output = Eight;

            #[inline(always)]
            fn $name(self, other: Eight) -> Eight {
                avx2!(Eight($intrinsic(self.0, other.0)))
            }
        })*
    };
}

operators! {
    Add::add _mm256_add_ps,
    Sub::sub _mm256_sub_ps,
    Mul::mul _mm256_mul_ps,
    Div::div _mm256_div_ps,
}

impl Lanes for Eight {
    const COUNT: usize = 8;

    type Mask = __m256;

    #[inline(always)]
    fn all(x: f32) -> Eight {
        avx2!(Eight(_mm256_set1_ps(x)))
    }

    #[inline(always)]
    fn each(of: impl Fn(usize) -> f32) -> Eight {
        let numbers = [of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)];
        avx2!(Eight(_mm256_loadu_ps(numbers.as_ptr())))
    }

    #[inline(always)]
    fn numbers(self) -> [f32; 8] {
        let mut numbers = [0.0; 8];
        avx2!(_mm256_storeu_ps(numbers.as_mut_ptr(), self.0));
        numbers
    }

    #[inline(always)]
    fn abs(self) -> Eight {
        avx2!(Eight(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0)))
    }

    #[inline(always)]
    fn sqrt(self) -> Eight {
        avx2!(Eight(_mm256_sqrt_ps(self.0)))
    }

    #[inline(always)]
    fn nearest(self) -> Eight {
        avx2!({
            let bits = _mm256_castps_si256(_mm256_add_ps(self.0, _mm256_set1_ps(12_582_912.0)));
            let raised = _mm256_and_si256(bits, _mm256_set1_epi32(0x7f_ffff));
            Eight(_mm256_cvtepi32_ps(_mm256_sub_epi32(raised, _mm256_set1_epi32(0x40_0000))))
        })
    }

    #[inline(always)]
    fn less(self, other: Eight) -> __m256 {
        avx2!(_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0))
    }

    #[inline(always)]
    fn both(a: __m256, b: __m256) -> __m256 {
        avx2!(_mm256_and_ps(a, b))
    }

    #[inline(always)]
    fn select(mask: __m256, yes: Eight, no: Eight) -> Eight {
        avx2!(Eight(_mm256_blendv_ps(no.0, yes.0, mask)))
    }

    #[inline(always)]
    fn any(mask: __m256) -> bool {
        avx2!(_mm256_movemask_ps(mask) != 0)
    }

    #[inline(always)]
    fn least(self, other: Eight) -> Eight {
        avx2!(Eight(_mm256_min_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn greatest(self, other: Eight) -> Eight {
        avx2!(Eight(_mm256_max_ps(self.0, other.0)))
    }
}
