//! What this crate's own tests reach into: single steps of products, and tokens of tables. No part of its face: it may change
//! with any version. Functions trust that the processor has what they are named after.

pub use crate::order::fma;

/// Arrays made element by element.
pub mod array {
    pub use crate::array::{Each, of};
}

#[cfg(target_arch = "x86_64")]
#[allow(missing_docs, reason = "as above")]
pub mod x86 {
    pub use crate::x86::ahead::family;
    pub use crate::x86::{Amx, Avx2, Avx512, Avx512Bf16, Avx512Vnni, AvxVnni};

    /// Products by blocks.
    pub mod batch {
        pub use crate::codebook::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Tq1_0, Tq2_0};
        pub use crate::x86::amx::tiles::Tiles;
        pub use crate::x86::avx512::{Bf16 as WideBf16, F16 as WideF16, F32 as WideF32};
        pub use crate::x86::batch::pack::packing;
        pub use crate::x86::batch::unpack::k_quants::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};
        pub use crate::x86::batch::unpack::legacy::{Iq4Nl, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
        pub use crate::x86::batch::unpack::nvfp4::Nvfp4;
        pub use crate::x86::batch::unpack::plain::{Bf16, F16, Wide};
        pub use crate::x86::batch::unpack::{BLOCK_ROWS, PANEL_LINES, Panel, STEP, Step, Unpack};
        pub use crate::x86::batch::{Engine, Form};
    }

    /// Products of K-quants by superblocks.
    pub mod superblocks {
        pub use crate::x86::superblocks::avx2::input::Input as Avx2Input;
        pub use crate::x86::superblocks::inputs::{INPUTS, Packed};
        pub use crate::x86::superblocks::vnni::input::Input as VnniInput;
        pub use crate::x86::superblocks::{COLS, avx2, avxvnni, vnni};
    }
}
