//! What a run of a test has to do, counted by running its passes on shapes alone.

use candor::Gguf;
use candor_models::{Decoder, Gives};
use candor_ops::{KvPlan, Shapes, Step, Work};

use super::plan::{Setup, Test};
use crate::{answer::kv_format, errors::Error};

/// A model's wiring, to count with.
pub struct Counter(Decoder<Shapes>);

impl Counter {
    /// Of a file.
    pub fn of(gguf: &Gguf) -> Result<Counter, Error> {
        Ok(Counter(Decoder::dry(gguf).map_err(candor::Error::from)?))
    }

    /// The work of one run: every pass that is timed, on a cache of the test's depth.
    pub fn count(&self, setup: Setup, test: Test) -> Result<Work, Error> {
        let context = usize::try_from(test.context()).unwrap_or(usize::MAX);
        let (keys, values) = (kv_format(setup.keys), kv_format(setup.values));
        let plan = self.0.config().kv_plan(context, test.sequences as usize, keys, values);
        let mut sum = Work::default();
        let after = test.depth + test.prompt;
        for sequence in 0..test.prompts() {
            let mut first = test.depth;
            while first < after {
                // An encoder's tokens see each other.
                let most =
                    if self.0.config().gives == Gives::Embeddings { after } else { setup.batch.min(setup.ubatch) };
                let rows = most.min(after - first);
                let positions: Vec<u32> = (first..first + rows).collect();
                first += rows;
                let outputs = if first == after { vec![rows - 1] } else { Vec::new() };
                self.add(&mut sum, &plan, (&positions, &vec![sequence; rows as usize], &outputs))?;
            }
        }
        let sequences: Vec<u32> = (0..test.sequences).collect();
        for position in after..after + test.generated {
            self.add(&mut sum, &plan, (&vec![position; sequences.len()], &sequences, &sequences))?;
        }
        Ok(sum)
    }

    /// Adds a pass of which positions, sequences and outputs are given.
    fn add(&self, sum: &mut Work, plan: &KvPlan, places: (&[u32], &[u32], &[u32])) -> Result<(), Error> {
        let (positions, sequences, outputs) = places;
        let tokens = vec![0; positions.len()];
        let step = Step { tokens: &tokens, positions, sequences, outputs, decoding: 0 };
        let work = self.0.work(step, plan).map_err(candor::Error::from)?;
        sum.flops = sum.flops.saturating_add(work.flops);
        sum.weight_bytes = sum.weight_bytes.saturating_add(work.weight_bytes);
        sum.kv_bytes = sum.kv_bytes.saturating_add(work.kv_bytes);
        Ok(())
    }
}
