//! What matrices are multiplied with, summed over a text as llama-imatrix does. Which value meets which matrix is in the model's
//! [`Graph`]: no wiring has a line for it.

use std::collections::HashMap;

use candor::{Logits, Model, Observed, Observer, Role, Session, Windows};
use candor_convert::{Entry, Imatrix};
use candor_ops::CHOSEN;

use crate::{Graph, Key, Kind};

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
    let uses = uses(session.model(), options).map_err(Error::from)?;
    let window = u32::try_from(windows.window()).unwrap_or(u32::MAX);
    let mut collector = Collector {
        uses,
        found: Imatrix { window, ..Imatrix::default() },
        chosen: HashMap::new(),
        waiting: Vec::new(),
    };
    let logits = if options.process_output { Logits::All } else { Logits::Last };
    for number in from..windows.count() {
        session.truncate(0);
        collector.chosen.clear();
        session.observe(&windows.input(number), Role::Prefill, logits, &mut collector).map_err(Error::from)?;
        collector.found.chunks += 1;
        collector.found.check().map_err(Error::from)?;
        each(&collector.found, windows.count() - from)?;
    }
    Ok(collector.found)
}

/// Matrices of layers that `found` says nothing of, or of some of whose experts.
pub fn unseen(model: &Model, found: &Imatrix) -> Vec<(String, Option<(usize, usize)>)> {
    let matrices =
        model.gguf().tensors().iter().filter(|tensor| tensor.shape.len() > 1 && tensor.name.starts_with("blk."));
    let of = |name: &str| match found.entries.get(name) {
        None => Some((name.to_owned(), None)),
        Some(entry) if entry.unseen() > 0 => Some((name.to_owned(), Some((entry.unseen(), entry.counts.len())))),
        Some(_) => None,
    };
    matrices.filter(|tensor| tensor.name.ends_with(".weight")).filter_map(|tensor| of(&tensor.name)).collect()
}

/// A matrix that a value is multiplied with.
#[derive(Clone, Debug, PartialEq)]
struct Use {
    tensor: String,
    matrices: usize,
    columns: usize,
    /// Whether rows choose their matrices.
    routed: bool,
}

/// The matrices of a model by the value that they are multiplied with. What parts of a matrix share counts once.
fn uses(model: &Model, options: Options) -> Result<HashMap<Key, Vec<Use>>, candor::Error> {
    let graph = Graph::new(model.gguf())?;
    let mut uses: HashMap<Key, Vec<Use>> = HashMap::new();
    for node in &graph.nodes {
        let (Some(weight), Some(&input)) = (node.kind.product(), node.inputs.first()) else { continue };
        // Rows of a matrix that is taken apart have a range behind its name.
        let tensor = weight.name.split('[').next().unwrap_or_default().to_owned();
        if !(tensor.starts_with("blk.") || options.process_output && OUTPUTS.contains(&tensor.as_str())) {
            continue;
        }
        let routed = matches!(node.kind, Kind::Stacked { routed: true, .. });
        let (matrices, columns) = (node.kind.matrices(), weight.cols);
        let found = Use { tensor, matrices, columns, routed };
        let of = uses.entry(graph.nodes[input].key.clone()).or_default();
        if !of.contains(&found) {
            of.push(found);
        }
    }
    Ok(uses)
}

struct Collector {
    uses: HashMap<Key, Vec<Use>>,
    found: Imatrix,
    /// The experts of a layer's rows, by the first position of the pass.
    chosen: HashMap<Option<usize>, (u32, Vec<f32>)>,
    /// Values whose rows have not chosen yet.
    waiting: Vec<(Key, Vec<f32>)>,
}

impl Observer for Collector {
    fn wants(&mut self, name: &'static str, layer: Option<usize>) -> bool {
        name == CHOSEN[0] || self.uses.contains_key(&Key::new(name, layer))
    }

    fn value(&mut self, observed: &Observed<'_>) {
        let &Observed { name, layer, step, rows, values } = observed;
        let first = step.positions[0];
        if name == CHOSEN[0] {
            self.chosen.insert(layer, (first, values.to_vec()));
            let (ready, rest): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|(key, _)| key.layer == layer);
            self.waiting = rest;
            for (key, values) in ready {
                self.add_routed(&key, rows, &values);
            }
            return;
        }
        let key = Key::new(name, layer);
        let Some(uses) = self.uses.get(&key) else { return };
        for Use { tensor, matrices, columns, .. } in uses.iter().filter(|of| !of.routed) {
            let entry =
                self.found.entries.entry(tensor.clone()).or_insert_with(|| Entry::new(*matrices, *columns, false));
            for (at, row) in values.chunks_exact(*columns).enumerate() {
                entry.add(at % matrices, row);
            }
        }
        if uses.iter().any(|of| of.routed) {
            match self.chosen.get(&layer) {
                Some((at, _)) if *at == first => self.add_routed(&key, rows, values),
                _ => self.waiting.push((key, values.to_vec())),
            }
        }
    }
}

impl Collector {
    /// Adds the rows of a value to the experts that they chose: each has one row, or one for each of its experts.
    fn add_routed(&mut self, key: &Key, rows: usize, values: &[f32]) {
        let (Some(uses), Some((_, chosen))) = (self.uses.get(key), self.chosen.get(&key.layer)) else { return };
        for Use { tensor, matrices, columns, .. } in uses.iter().filter(|of| of.routed) {
            let entry =
                self.found.entries.entry(tensor.clone()).or_insert_with(|| Entry::new(*matrices, *columns, true));
            let (used, own) = (chosen.len() / rows, values.len() / rows / columns);
            for slot in 0..used {
                for row in 0..rows {
                    let x = &values[(row * own + slot % own) * columns..][..*columns];
                    entry.add(chosen[row * used + slot] as usize, x);
                }
            }
        }
    }
}
