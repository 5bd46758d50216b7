//! Two files of one model: what of metadata and tensors differs, by how much, and which tensor costs most.

use candor::{Gguf, LoadOptions, Model, SessionOptions, Windows};
use serde::Serialize;

use crate::divergence::{self, Error};

/// What differs between two files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Keys of the metadata that one lacks, or of other values.
    pub metadata: Vec<Key>,
    /// All tensors of either.
    pub tensors: Vec<Pair>,
}

/// A key whose values differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// The key.
    pub key: String,
    /// Its value in the first file, as it is printed.
    pub a: Option<String>,
    /// In the second.
    pub b: Option<String>,
}

/// A tensor of both files, or of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Its name.
    pub name: String,
    /// How the first file has it.
    pub a: Option<Kept>,
    /// The second.
    pub b: Option<Kept>,
    /// Where both have the same shape: the root mean square of the differences, divided by that of the first's numbers.
    pub error: Option<f64>,
    /// Mean divergence of the first file's model where it has this tensor of the second, in nats.
    pub cost: Option<f64>,
}

/// How a file has a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// ggml's name of the format.
    pub format: &'static str,
    /// Elements per dimension, the row first.
    pub shape: Vec<u64>,
    /// Length of the data.
    pub bytes: u64,
}

/// Elements that are decoded at a time: whole blocks of any format.
const PIECE: usize = 1 << 16;

impl Pair {
    /// Whether both files have other numbers, or one has none.
    pub fn differs(&self) -> bool {
        self.error != Some(0.0)
    }
}

/// Compares two files. `progress` hears how many of the tensors are done.
///
/// # Errors
/// If a file cannot be read.
pub fn files(a: &Gguf, b: &Gguf, mut progress: impl FnMut(usize, usize)) -> Result<Compared, candor_gguf::Error> {
    let mut metadata = Vec::new();
    for (key, value) in a.metadata().iter() {
        let other = b.metadata().get(key);
        if other != Some(value) {
            metadata.push(Key { key: key.to_owned(), a: Some(value.to_string()), b: other.map(ToString::to_string) });
        }
    }
    for (key, value) in b.metadata().iter().filter(|(key, _)| a.metadata().get(key).is_none()) {
        metadata.push(Key { key: key.to_owned(), a: None, b: Some(value.to_string()) });
    }
    let kept = |file: &Gguf, name: &str| {
        file.tensor(name).map(|tensor| Kept {
            format: tensor.format.name(),
            shape: tensor.shape.clone(),
            bytes: tensor.bytes,
        })
    };
    let alone = b.tensors().iter().filter(|tensor| a.tensor(&tensor.name).is_none());
    let names: Vec<&str> = a.tensors().iter().chain(alone).map(|tensor| tensor.name.as_str()).collect();
    let mut tensors = Vec::with_capacity(names.len());
    for (number, &name) in names.iter().enumerate() {
        let (of_a, of_b) = (kept(a, name), kept(b, name));
        let same_shape = matches!((&of_a, &of_b), (Some(a), Some(b)) if a.shape == b.shape);
        let error = if same_shape { Some(error(a, b, name)?) } else { None };
        tensors.push(Pair { name: name.to_owned(), a: of_a, b: of_b, error, cost: None });
        progress(number + 1, names.len());
    }
    Ok(Compared { metadata, tensors })
}

/// Relative error of a tensor that both files have in one shape.
fn error(a: &Gguf, b: &Gguf, name: &str) -> Result<f64, candor_gguf::Error> {
    let (Some(of_a), Some(of_b)) = (a.tensor(name), b.tensor(name)) else { return Ok(f64::NAN) };
    let (bytes_a, bytes_b) = (a.read_data(of_a)?, b.read_data(of_b)?);
    if of_a.format == of_b.format && bytes_a == bytes_b {
        return Ok(0.0);
    }
    let piece = |format: candor::Format| PIECE / format.block_len() * format.block_bytes();
    let [mut values, mut others] = [vec![0f32; PIECE], vec![0f32; PIECE]];
    let (mut squares, mut differences, mut left) = (0.0, 0.0, of_a.elements() as usize);
    for (bytes_a, bytes_b) in bytes_a.chunks(piece(of_a.format)).zip(bytes_b.chunks(piece(of_b.format))) {
        let count = left.min(PIECE);
        of_a.format.decode(bytes_a, &mut values[..count]);
        of_b.format.decode(bytes_b, &mut others[..count]);
        for (&x, &y) in values[..count].iter().zip(&others[..count]) {
            squares += f64::from(x) * f64::from(x);
            differences += (f64::from(x) - f64::from(y)).powi(2);
        }
        left -= count;
    }
    Ok(if differences == 0.0 { 0.0 } else { (differences / squares).sqrt() })
}

/// Notes for each tensor that differs what it costs alone: how far the first model's predictions are from its own where this tensor is
/// the second's. `progress` hears how many are done.
///
/// # Errors
/// If a model does not run, or the windows do not fit its session.
pub fn costs(
    compared: &mut Compared,
    (a, b): (&Gguf, &Gguf),
    (load, session): (&LoadOptions, SessionOptions),
    windows: &Windows<'_>,
    mut progress: impl FnMut(usize, usize),
) -> Result<(), Error> {
    let base = Model::from_gguf(a.clone(), load)?;
    let mut beside = base.session(&session)?;
    let different = |pair: &&mut Pair| pair.error.is_some() && pair.differs();
    let count = compared.tensors.iter_mut().filter(different).count();
    for (number, pair) in compared.tensors.iter_mut().filter(different).enumerate() {
        let mixed = Model::from_gguf(a.with_tensors_of(b, |name| name == pair.name), load)?;
        let found = divergence::of_models(&mut beside, &mut mixed.session(&session)?, windows, |_, _| ())?;
        pair.cost = Some(found.mean().value);
        progress(number + 1, count);
    }
    Ok(())
}
