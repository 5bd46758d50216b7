//! Faults planted in models and found again.

mod bed;
mod catalogue;
mod experts;
mod families;
mod harmless;
mod model;
mod noise;
mod pairs;
mod partial;
mod prompts;
mod recurrent;
mod table;
mod wirings;
