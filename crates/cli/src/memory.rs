//! The memory that cached keys and values need, in the words of the command line.

use candor::Config;
use candor_ops::KvPlan;

use crate::{answer::kv_format, args::CacheFormat};

/// Bytes of the cache of one conversation; `None` if no machine could hold them.
pub fn cache_bytes(config: &Config, context: usize, keys: CacheFormat, values: CacheFormat) -> Option<u64> {
    let plan: KvPlan = config.kv_plan(context, 1, kv_format(keys), kv_format(values));
    u64::try_from(plan.checked_bytes()?).ok()
}
