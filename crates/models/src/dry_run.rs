//! A model on [`Shapes`]: whether its weights belong together, and what a pass costs, without loading or computing
//! anything.

use std::collections::BTreeSet;

use candor_gguf::Gguf;
use candor_ops::{KvFormat, KvPlan, Prims, Shapes, Step, Work};

use crate::{Architecture, Config, Decoder, Error, Part, Pass, needs};

impl Decoder<Shapes> {
    /// The file's wiring on [`Shapes`], without its weights.
    ///
    /// # Errors
    /// If the file is not a model of this wiring.
    pub fn dry(gguf: &Gguf) -> Result<Decoder<Shapes>, Error> {
        let mut ops = Shapes::default();
        let model = Decoder::load_unchecked(gguf, &mut ops, &Part::whole(Config::from_gguf(gguf)?.layers))?;
        ops.finish()?;
        needs::check(gguf, Architecture::of(gguf)?, model.config())?;
        Ok(model)
    }

    /// Bytes of a part's weights in the file, without loading them.
    ///
    /// # Errors
    /// If the file is not a model of this wiring, or has no such layers.
    pub fn part_bytes(gguf: &Gguf, part: &Part) -> Result<u64, Error> {
        Ok(Decoder::load_unchecked(gguf, &mut Shapes::default(), part)?.weight_bytes())
    }

    /// Those operations of the file's model that a backend may be without ([`Prims::WITHOUT`]).
    ///
    /// # Errors
    /// If the file is not a model of this wiring, or its weights do not belong together.
    pub fn operations(gguf: &Gguf) -> Result<BTreeSet<&'static str>, Error> {
        let model = Decoder::dry(gguf)?;
        let plan = model.config().kv_plan(1, 1, KvFormat::F32, KvFormat::F32);
        let step = Step { tokens: &[0], positions: &[0], sequences: &[0], outputs: &[0], decoding: 0 };
        let mut ops = Shapes::default();
        model.run(&mut ops, step, &plan)?;
        let used = ops.used().clone();
        ops.finish()?;
        Ok(used)
    }

    /// The work of a pass on a cache of that plan, without doing it.
    ///
    /// # Errors
    /// If the weights do not belong together, or the step does not fit into the cache.
    pub fn work(&self, step: Step<'_>, plan: &KvPlan) -> Result<Work, Error> {
        let mut ops = Shapes::default();
        self.run(&mut ops, step, plan)?;
        Ok(ops.finish()?)
    }

    /// The pass, of which the reading of a text is no part.
    fn run(&self, ops: &mut Shapes, step: Step<'_>, plan: &KvPlan) -> Result<(), Error> {
        let mut scratch = self.scratch(ops, step.tokens.len(), step.outputs.len());
        let mut kv = ops.kv(plan);
        self.encode(&mut Pass { ops, s: &mut scratch, kv: &mut kv, step, tap: &mut () });
        ops.finish()?;
        self.forward(&mut Pass { ops, s: &mut scratch, kv: &mut kv, step, tap: &mut () });
        Ok(())
    }

    /// The work of a pass over `rows` tokens of an empty cache, each with its logits.
    ///
    /// # Errors
    /// If the file is not a model of this wiring, or its weights do not belong together.
    pub fn check(gguf: &Gguf, rows: usize) -> Result<Work, Error> {
        let model = Decoder::dry(gguf)?;
        let plan = model.config().kv_plan(rows, 1, KvFormat::F32, KvFormat::F32);
        let places: Vec<u32> = (0..rows as u32).collect();
        let (zeros, places) = (vec![0; rows], places.as_slice());
        model.work(Step { tokens: &zeros, positions: places, sequences: &zeros, outputs: places, decoding: 0 }, &plan)
    }
}
