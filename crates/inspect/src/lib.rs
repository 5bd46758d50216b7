//! Showing the work: traces of forward passes, recorded, imported, verified and diagnosed.
//!
//! A [`Trace`] holds named values of a pass, Candor's own or another engine's. Reports are data that serialises; this
//! crate prints nothing.
#![forbid(unsafe_code)]

mod attending;
mod catalogue;
pub mod comparison;
pub mod cost;
mod diagnose;
pub mod distribution;
pub mod divergence;
pub mod doctor;
pub mod fault;
pub mod file;
mod graph;
pub mod imatrix;
pub mod import;
mod names;
mod page;
pub mod record;
pub mod replay;
mod settle;
mod simulate;
pub mod survey;
pub mod target;
pub mod text;
mod trace;
mod value;
pub mod verify;

pub use attending::Attending;
pub use catalogue::catalogue;
pub use diagnose::{
    Check, Confidence, Diagnosis, Error as DiagnoseError, Finding, Gate, Outcome, Rival, Status, Storage, diagnose,
    diagnose_in, judge,
};
pub use graph::{Chosen, Graph, Kind, Node, NodeId, Rotary, Weighted};
pub use names::{NameMap, ProjectionBias, Wiring};
pub use page::page;
pub use settle::{Settled, settle};
pub use simulate::{simulate, simulate_taking};
pub use text::{Said, TextReport, check_text};
pub use trace::{Evidence, Key, Known, Origin, Trace};
pub use value::{Residual, Value, compare, compare_where};
