//! A backend with its fusions switched off: tells a wrong fusion from a wrong primitive.

use crate::{Ops, Prims};

/// Runs `B`'s primitives and the default bodies of all fusions.
#[derive(Clone, Debug, Default)]
pub struct Plain<B>(pub B);

impl<B: Prims> Ops for Plain<B> {}

impl<B: Prims> Prims for Plain<B> {
    type Weight = B::Weight;
    type Buf = B::Buf;
    type Kv = B::Kv;
    type Rope = B::Rope;
    type Snapshot = B::Snapshot;
    type Routes = B::Routes;

    const WITHOUT: &'static [&'static str] = B::WITHOUT;
    const READS_WEIGHTS: bool = B::READS_WEIGHTS;

    crate::forward! { 0, std::convert::identity:
        weight buffer check_kv kv rope_table routes embed rms_norm norm matmul matmul_rows add_bias
        rope kv_write attend unary mul add copy add_positions mul_columns mul_groups dot_groups
        matmul_heads conv recur route choices chosen matmul_experts add_bias_experts scale_experts
        sum_experts upload snapshot elements poll_read download stored recycle_weights stop_at finish
    }
}
