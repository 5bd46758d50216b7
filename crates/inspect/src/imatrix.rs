//! What matrices are multiplied with, summed over a text as llama-imatrix does. The backend tells of each product: no wiring has a line
//! for it.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use candor::{
    Listener, Logits, Model, Observed, Observer, Product, Role, Session, SharedListener, Stack, TensorInfo, Windows,
};
use candor_convert::{Entry, Imatrix};

use crate::{Graph, Node};

/// Why nothing is summed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model does not run.
    #[error(transparent)]
    Model(#[from] candor::Error),
    /// A value is no finite number.
    #[error(transparent)]
    Sum(#[from] candor_convert::Error),
}

/// Matrices that give logits.
const OUTPUTS: [&str; 2] = ["output.weight", "token_embd.weight"];

/// Which matrices count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Also those that are no layer's: the output's.
    pub process_output: bool,
}

/// Runs a model over windows of a text, from window `from` on, and sums what its matrices are multiplied with. `each` hears what is
/// known after each window, and how many there are.
///
/// # Errors
/// If a window does not fit the session, the model does not run, or a value is no finite number.
pub fn collect<E: From<Error>>(
    session: &mut Session,
    windows: &Windows<'_>,
    from: usize,
    options: Options,
    mut each: impl FnMut(&Imatrix, usize) -> Result<(), E>,
) -> Result<Imatrix, E> {
    let window = u32::try_from(windows.window()).unwrap_or(u32::MAX);
    let stacked =
        |tensor: &TensorInfo| (tensor.name.clone(), tensor.shape.get(2).map_or(1, |&matrices| matrices as usize));
    let matrices = session.model().gguf().tensors().iter().map(stacked).collect();
    let found = Imatrix { window, ..Imatrix::default() };
    let collector = Arc::new(Mutex::new(Collector { options, matrices, found }));
    let listener: SharedListener = collector.clone();
    session.listen(Some(&listener));
    let done = run(session, windows, from, options, &mut |found| each(found, windows.count() - from), &collector);
    session.listen(None);
    done?;
    Ok(mem::take(&mut locked(&collector).found))
}

/// Runs the windows.
fn run<E: From<Error>>(
    session: &mut Session,
    windows: &Windows<'_>,
    from: usize,
    options: Options,
    each: &mut dyn FnMut(&Imatrix) -> Result<(), E>,
    collector: &Mutex<Collector>,
) -> Result<(), E> {
    let logits = if options.process_output { Logits::All } else { Logits::Last };
    for number in from..windows.count() {
        session.truncate(0);
        session.observe(&windows.input(number), Role::Prefill, logits, &mut Nobody).map_err(Error::from)?;
        let found = &mut locked(collector).found;
        found.chunks += 1;
        found.check().map_err(Error::from)?;
        each(found)?;
    }
    Ok(())
}

fn locked(collector: &Mutex<Collector>) -> MutexGuard<'_, Collector> {
    collector.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wants no value by name.
struct Nobody;

impl Observer for Nobody {
    fn wants(&mut self, _: &'static str, _: Option<usize>) -> bool {
        false
    }

    fn value(&mut self, _: &Observed<'_>) {}
}

/// A matrix that nothing is known of, or not of all its experts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// Its name.
    pub tensor: String,
    /// Experts that no row chose, and how many there are; `None` where nothing was multiplied with the matrix.
    pub experts: Option<(usize, usize)>,
}

/// Matrices of layers that `found` says nothing of, or of some of whose experts.
///
/// # Errors
/// If the model cannot be run.
pub fn unseen(model: &Model, found: &Imatrix) -> Result<Vec<Unseen>, Error> {
    let graph = Graph::new(model.gguf()).map_err(candor::Error::from)?;
    // Rows of a matrix that is taken apart have a range behind its name.
    let name = |node: &Node| node.kind.product()?.name.split('[').next().map(str::to_owned);
    let names: BTreeSet<String> = graph.nodes.iter().filter_map(name).filter(|name| name.starts_with("blk.")).collect();
    let of = |tensor: String| match found.entries.get(&tensor) {
        None => Some(Unseen { tensor, experts: None }),
        Some(entry) if entry.unseen() > 0 => {
            Some(Unseen { tensor, experts: Some((entry.unseen(), entry.counts.len())) })
        }
        Some(_) => None,
    };
    Ok(names.into_iter().filter_map(of).collect())
}

/// Sums what it hears of.
struct Collector {
    options: Options,
    /// Matrices of each weight, by its name.
    matrices: HashMap<String, usize>,
    found: Imatrix,
}

impl Listener for Collector {
    fn wants(&self, weight: &str) -> bool {
        weight.starts_with("blk.") || self.options.process_output && OUTPUTS.contains(&weight)
    }

    fn product(&mut self, Product { weight, columns, inputs, stack }: Product<'_>) {
        let matrices = match stack {
            Stack::One => 1,
            Stack::Heads(heads) => heads,
            Stack::Experts { .. } => self.matrices.get(weight).copied().unwrap_or(1),
        };
        let apart = matches!(stack, Stack::Experts { .. });
        let entry = self.found.entries.entry(weight.to_owned());
        let entry = entry.or_insert_with(|| Entry::new(matrices, columns, apart));
        let rows = || inputs.chunks_exact(columns);
        match stack {
            Stack::One | Stack::Heads(_) => rows().enumerate().for_each(|(at, row)| entry.add(at % matrices, row)),
            Stack::Experts { chosen, used } => {
                let tokens = chosen.len() / used.max(1);
                let own = rows().len() / tokens.max(1);
                // Sums are added up in llama.cpp's order.
                for (slot, token) in (0..used).flat_map(|slot| (0..tokens).map(move |token| (slot, token))) {
                    let row = &inputs[(token * own + slot % own) * columns..][..columns];
                    entry.add(chosen[token * used + slot].0 as usize, row);
                }
            }
        }
    }
}
