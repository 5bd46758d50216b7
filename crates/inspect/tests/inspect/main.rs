//! Traces and dumps read, named, judged and shown; verdicts on logits; `doctor` on files; the text side of a diagnosis.

mod distribution;
mod divergence;
mod doctor;
mod exported;
mod imatrix;
mod import;
mod import_broken;
mod import_trace_file;
mod likelihood;
mod logs;
mod names;
mod page;
mod record;
mod stories;
mod text;
