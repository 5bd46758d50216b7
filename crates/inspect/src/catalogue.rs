//! The catalogue of known faults: one row each, tried one after the other where an operation does not follow from its
//! inputs. Sections follow research on why engines print gibberish; `entry` is the number there.

mod answers;
mod attention;
mod biases;
mod cache;
mod convolution;
mod dequantization;
mod embedding;
mod experts;
mod ffn;
mod latent;
mod loader;
mod masks;
mod mixing;
mod norm;
mod numbers;
mod output;
mod recurrence;
mod rotary;
mod router;
mod row;
mod seen;
mod side_streams;
mod state_gate;
mod stream;
mod time_step;
mod values;
mod weights;

use crate::fault::Fault;

/// Every known fault.
pub fn catalogue() -> impl Iterator<Item = &'static Fault> {
    let parts = [
        loader::FAULTS,
        dequantization::FAULTS,
        biases::FAULTS,
        norm::FAULTS,
        rotary::FAULTS,
        attention::FAULTS,
        cache::FAULTS,
        latent::FAULTS,
        masks::FAULTS,
        answers::FAULTS,
        ffn::FAULTS,
        experts::FAULTS,
        embedding::FAULTS,
        router::FAULTS,
        stream::FAULTS,
        output::FAULTS,
        numbers::FAULTS,
        convolution::FAULTS,
        time_step::FAULTS,
        recurrence::FAULTS,
        state_gate::FAULTS,
        mixing::FAULTS,
        side_streams::FAULTS,
    ];
    parts.into_iter().flatten()
}
