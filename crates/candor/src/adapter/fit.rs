//! Adapters held against a model: shapes against shapes, and a run on `Shapes` that shows whether each changed weight is
//! multiplied with something. After that no backend needs to look.

use std::{collections::BTreeSet, sync::Arc};

use candor_gguf::{Gguf, TensorInfo};
use candor_models::{Config, Decoder, Gives, Pass};
use candor_ops::{KvFormat, LowRank, Prims, Shapes, Step, Tensor};

use super::{Adapter, EMBEDDING, Error, dimension};

/// Adapters that belong to a model.
pub(crate) struct Fitted {
    /// All that they change; each obeys the scale of its adapter's number.
    pub(crate) changes: Arc<[LowRank]>,
    /// Operations of the adapted model that a backend may be without.
    pub(crate) operations: BTreeSet<&'static str>,
    /// Bytes of the changes in their files.
    pub(crate) bytes: u64,
}

impl Fitted {
    /// Holds adapters against a model.
    ///
    /// # Errors
    /// If one is of another model: the message names it and what does not fit.
    pub(crate) fn new(gguf: &Gguf, adapters: &[Adapter]) -> Result<Fitted, crate::Error> {
        let mut changes = Vec::new();
        for (number, adapter) in adapters.iter().enumerate() {
            changes.extend(adapter.changes(number, gguf).map_err(|error| adapter.fault(error))?);
        }
        let tied = Config::from_gguf(gguf)?.gives == Gives::Logits && gguf.tensor("output.weight").is_none();
        if let Some(change) = changes.iter().find(|change: &&LowRank| tied && change.target == EMBEDDING) {
            return Err(adapters[change.scale].fault(Error::Tied { target: change.target.clone() }));
        }
        let changes: Arc<[LowRank]> = changes.into();
        let mut ops = Shapes::default();
        run(gguf, &mut ops)?;
        if let Some(change) = changes.iter().find(|change| !ops.multiplied().contains(&change.target)) {
            return Err(adapters[change.scale].fault(Error::NoProduct { target: change.target.clone() }));
        }
        let mut operations = ops.used().clone();
        if !changes.is_empty() {
            // A change is scaled. It is multiplied and added as the model's own weights are.
            operations.insert("unary");
        }
        ops.finish().map_err(candor_models::Error::from)?;
        let bytes = changes.iter().map(|change| (change.a.bytes.len() + change.b.bytes.len()) as u64).sum();
        Ok(Fitted { changes, operations, bytes })
    }
}

/// A pass of one token, where there is an encoder after a text of one token.
fn run(gguf: &Gguf, ops: &mut Shapes) -> Result<(), crate::Error> {
    let model = Decoder::load(gguf, ops)?;
    let mut s = model.scratch(ops, 1, 1);
    let mut kv = ops.kv(&model.config().kv_plan(1, 1, KvFormat::F32, KvFormat::F32));
    let step = Step { tokens: &[0], positions: &[0], sequences: &[0], outputs: &[0], decoding: 0 };
    model.encode(&mut Pass { ops, s: &mut s, kv: &mut kv, step, tap: &mut () });
    ops.finish().map_err(candor_models::Error::from)?;
    model.forward(&mut Pass { ops, s: &mut s, kv: &mut kv, step, tap: &mut () });
    Ok(())
}

impl Adapter {
    fn changes(&self, scale: usize, gguf: &Gguf) -> Result<Vec<LowRank>, Error> {
        let expected = gguf.metadata().str("general.architecture")?.unwrap_or_default();
        if self.architecture() != expected {
            let (expected, got) = (expected.to_owned(), self.architecture().to_owned());
            return Err(Error::Architecture { expected, got });
        }
        self.targets().iter().map(|target| self.change(&target.name, scale, gguf)).collect()
    }

    fn change(&self, target: &str, scale: usize, gguf: &Gguf) -> Result<LowRank, Error> {
        let Some(base) = gguf.tensor(target) else { return Err(Error::NoTarget { target: target.to_owned() }) };
        let half = |half: &'static str| {
            self.half(target, half).ok_or_else(|| Error::Half { target: target.to_owned(), missing: half })
        };
        let (a, b) = (half("lora_a")?, half("lora_b")?);
        let rank = dimension(b, 0).max(1);
        // What the weight takes in and gives, and how many matrices of that it has.
        let [into, out, deep, deeper] = std::array::from_fn(|index| dimension(base, index));
        let fitting = match target.ends_with(EMBEDDING) {
            true => [[rank, out, deep, deeper], [rank, into, deep, deeper]],
            false => [[into, rank, deep, deeper], [rank, out, deep, deeper]],
        };
        let [a, b] = [self.tensor(a, fitting[0])?, self.tensor(b, fitting[1])?];
        let factor = if self.alpha() == 0.0 { 1.0 } else { self.alpha() / rank as f32 };
        Ok(LowRank { target: target.to_owned(), scale, factor, a, b })
    }

    /// A half on its way to a backend, if its dimensions are these.
    fn tensor(&self, info: &TensorInfo, expected: [u64; 4]) -> Result<Tensor, Error> {
        if std::array::from_fn(|index| dimension(info, index)) != expected {
            let len = expected.iter().rposition(|&dimension| dimension != 1).map_or(1, |last| last + 1);
            let (tensor, expected, got) = (info.name.clone(), expected[..len].to_vec(), info.shape.clone());
            return Err(Error::Shape { tensor, expected, got });
        }
        let [cols, rows @ ..] = expected.map(|dimension| dimension as usize);
        let bytes = self.gguf().read_data(info)?;
        Ok(Tensor { name: info.name.clone(), format: info.format, rows: rows.iter().product(), cols, bytes })
    }
}
