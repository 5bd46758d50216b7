//! The vocabulary of a forward pass, and the backends that compute nothing new.
//!
//! [`Prims`] are the operations that every backend provides, [`Ops`] the fusions whose default bodies are their
//! definitions, [`Step`] everything that varies from one call to the next, [`Tap`] the place where values are
//! observed. [`Reference`] is the readable definition of each primitive, [`Plain`] switches fusions off and
//! [`Shapes`] checks dimensions and counts work. Nothing here knows a model, a file or a thread.
#![forbid(unsafe_code)]

mod adapted;
mod attention;
mod columns;
mod forward;
mod kv;
mod norm;
mod pages;
mod plain;
mod prims;
mod product;
mod recurrence;
mod reference;
mod rope;
mod router;
mod shapes;
mod step;
mod stop;
mod stored;
mod tap;
mod tensor;
mod top;
mod unary;

pub use adapted::{Adapted, AdaptedWeight, LowRank};
pub use attention::{Attention, Mask, Relative, alibi_slope, relative_bucket, sequence_len};
pub use columns::Columns;
pub use kv::{KvFormat, KvPlan, LayerCache, RING};
pub use norm::{Norm, NormKind};
pub use pages::{ABSENT, Full, Moved, PAGE, Pages};
pub use plain::Plain;
pub use prims::{Heads, Ops, Prims, Traffic};
pub use product::{Listener, Product, SharedListener, Stack};
pub use recurrence::{Decay, Recurrence};
pub use reference::Reference;
pub use rope::{Pairing, Rope};
pub use router::{Choosing, Gate, Router};
pub use shapes::{Shapes, Work};
pub use step::Step;
pub use stop::Stop;
pub use stored::{Extent, Prefix, Stored, put_floats, take_floats};
pub use tap::{CHOSEN, Recorder, Tap, Tapped};
pub use tensor::{Error, Tensor};
pub use top::{Ranked, better_first, top_k};
pub use unary::Unary;
