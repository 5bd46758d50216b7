//! The memory that a model needs: weights, cached keys and values, room to compute. An estimate made of dimensions;
//! nothing is allocated.

use candor::{models::Config, ops::KvPlan};

use crate::{answer::kv_format, args::CacheFormat};

/// Bytes of the cache of one conversation; `None` if no machine could hold them.
pub fn cache_bytes(config: &Config, context: usize, keys: CacheFormat, values: CacheFormat) -> Option<u64> {
    let plan: KvPlan = config.kv_plan(context, 1, kv_format(keys), kv_format(values));
    u64::try_from(plan.checked_bytes()?).ok()
}

/// Bytes of the buffers that a step of `rows` tokens computes in, `f32` each: residual stream and its norm, queries,
/// keys, values, attention's result, both halves of the feed-forward, and one row of logits.
pub fn buffer_bytes(config: &Config, rows: usize) -> u64 {
    let heads = &config.heads;
    let q = heads.heads as u64 * heads.key_dim as u64;
    let k = heads.kv_heads as u64 * heads.key_dim as u64;
    let v = heads.kv_heads as u64 * heads.value_dim as u64;
    let att = heads.heads as u64 * heads.value_dim as u64;
    let row = 2 * config.dim as u64 + q + k + v + att + 2 * config.ffn as u64;
    4 * (row.saturating_mul(rows as u64) + config.vocab as u64)
}
