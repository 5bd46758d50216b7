//! Blocks of every format to floats.

mod goldens;
mod rows;
