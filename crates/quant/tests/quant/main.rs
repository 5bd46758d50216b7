//! Blocks of every format to floats.

mod encoded;
mod goldens;
mod rows;
