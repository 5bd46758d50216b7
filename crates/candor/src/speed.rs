//! How long the processor takes for a token, found out with one of a model's layers.

use std::task::{Context, Poll, Waker};

use candor_gguf::Gguf;
use candor_models::{Begin, Config, Decoder, End, Part};
use candor_ops::{Shapes, Step};

use crate::{
    BatchOptions, Device, Error, LoadOptions, backends,
    batch::Room,
    runner::{Asked, AskedLogits, Computed, Doing, RunPart},
};

/// Positions of the layer's cache: about as many as a short answer's.
const CONTEXT: usize = 256;
/// Milliseconds of a measurement at least: clocks of browsers have steps of up to 1 ms.
const LEAST: f64 = 20.0;
/// Measurements, of which the shortest counts.
const ROUNDS: usize = 3;

/// Estimates the milliseconds of a token on the processor, from the time of the layer in the middle and how many bytes of weights the
/// whole model has. `clock` tells milliseconds. Needs memory for one layer, and takes a tenth of a second or ten tokens of it.
///
/// # Errors
/// If the model cannot be run, or not by layers; if a layer does not fit into memory or cannot be read.
pub fn processor_token_ms(gguf: &Gguf, options: &LoadOptions, clock: impl Fn() -> f64) -> Result<f64, Error> {
    let gguf = options.overrides.apply(gguf.clone())?;
    let config = Config::from_gguf(&gguf)?;
    let middle = config.layers / 2;
    let part = Part { begin: Begin::Stream, layers: middle..middle + 1, end: End::Stream };
    // Of the embedding a token reads one row.
    let whole = Part { begin: Begin::Stream, layers: 0..config.layers, end: End::Logits };
    let bytes = |part: &Part| Decoder::<Shapes>::part_bytes(&gguf, part);
    let share = bytes(&part)? as f64 / bytes(&whole)?.max(1) as f64;
    let mut layer = Layer::load(&gguf, &config, &part, options)?;
    layer.step()?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = clock();
        let mut steps = 0.0;
        let taken = loop {
            layer.step()?;
            steps += 1.0;
            let taken = clock() - begun;
            if taken >= LEAST {
                break taken;
            }
        };
        best = best.min(taken / steps);
    }
    Ok(best / share)
}

/// A layer on the processor with a cache of its own.
struct Layer {
    runs: Vec<Box<dyn RunPart>>,
    computed: Computed,
    stream: Vec<f32>,
    position: u32,
}

impl Layer {
    fn load(gguf: &Gguf, config: &Config, part: &Part, options: &LoadOptions) -> Result<Layer, Error> {
        let options = options.clone().device(Device::Cpu);
        let loaded = backends::load_part(gguf, &options, part)?;
        let room =
            BatchOptions::default().context(CONTEXT).rows(1).keys(options.session.keys).values(options.session.values);
        let runs = loaded.begin(&Room::planned(config, &room).plan, 1, 0)?;
        // Numbers like those of a stream; which they are makes no difference to the time.
        let stream = (0..config.dim).map(|i| (i % 7) as f32 - 3.0).collect();
        Ok(Layer { runs, computed: Computed::default(), stream, position: 0 })
    }

    /// Computes the layer for the next position; after the last comes the first.
    fn step(&mut self) -> Result<(), Error> {
        let Layer { runs, computed, stream, position } = self;
        let step = Step { tokens: &[0], positions: &[*position], sequences: &[0], outputs: &[], decoding: 1 };
        let doing = Doing::Step(Asked { logits: AskedLogits::None, embeddings: false });
        computed.clear();
        computed.stream.extend_from_slice(stream);
        for run in runs {
            run.record(step, doing, run.layers(), computed, None);
            if run.poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
                return Err(Error::NotAwaited);
            }
            run.end(step, computed, None)?;
        }
        *position = (*position + 1) % CONTEXT as u32;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use candor_testing::Tiny;

    use super::*;

    #[test]
    fn a_layer_counts_by_its_share_of_the_weights() {
        let tiny = Tiny { layers: 5, ..Tiny::default() };
        let gguf = Gguf::from_bytes(tiny.bytes().into()).unwrap();
        let bytes = |is: &dyn Fn(&str) -> bool| -> u64 {
            gguf.tensors().iter().filter(|tensor| is(&tensor.name)).map(|tensor| tensor.bytes).sum()
        };
        let layer = bytes(&|name| name.starts_with("blk.2."));
        let whole = bytes(&|name| name.starts_with("blk.") || name.starts_with("output"));
        // A clock by which each step takes 4 ms.
        let calls = Cell::new(0.0);
        let clock = || calls.replace(calls.get() + 4.0);
        let found = processor_token_ms(&gguf, &LoadOptions::default(), clock).unwrap();
        let expected = 4.0 * whole as f64 / layer as f64;
        assert!((found / expected - 1.0).abs() < 1e-9, "{found}, expected {expected}");
    }
}
