//! From the vectors of a text's tokens to the text's: which of them count, and how long the result is made. Numbers in,
//! numbers out.

use crate::{Error, Model};

/// How the vectors of a text's tokens become the text's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// They do not: every token's is given.
    None,
    /// Their mean.
    Mean,
    /// The first token's.
    Cls,
    /// The last token's.
    Last,
    /// None: the scores that a reranker's head gives for one of them.
    Rank,
}

impl Pooling {
    /// All of them, in the order of GGUF's numbers.
    pub const ALL: [Pooling; 5] = [Pooling::None, Pooling::Mean, Pooling::Cls, Pooling::Last, Pooling::Rank];

    /// What the file says; where it is silent, the last token's for a model that continues texts, which alone has seen them
    /// whole.
    ///
    /// # Errors
    /// If an encoder's file says nothing, or there is no such number.
    pub fn of(model: &Model) -> Result<Pooling, Error> {
        match Pooling::said(model)? {
            Some(pooling) => Ok(pooling),
            None if model.encodes() => Err(Error::NoPooling(key(model))),
            None => Ok(Pooling::Last),
        }
    }

    /// What the file says: only files of models that are made for vectors do.
    ///
    /// # Errors
    /// If there is no such number.
    pub fn said(model: &Model) -> Result<Option<Pooling>, Error> {
        number(model, &key(model))
    }

    /// What a reranker's head is given: what the file says, or the first token's, or the last one's of a model that
    /// continues texts.
    pub(crate) fn before_rank(model: &Model) -> Result<Pooling, Error> {
        let said = number(model, &format!("{}.classifier.pooling_type", model.architecture()))?;
        let default = if model.encodes() { Pooling::Cls } else { Pooling::Last };
        Ok(said.filter(|said| matches!(said, Pooling::Mean | Pooling::Cls | Pooling::Last)).unwrap_or(default))
    }

    /// Of rows of `width`, `[T, width]`; with [`Pooling::None`] and [`Pooling::Rank`] they stay what they are.
    pub(crate) fn pool(self, rows: &[f32], width: usize) -> Vec<f32> {
        match self {
            Pooling::None | Pooling::Rank => rows.to_vec(),
            Pooling::Cls => rows[..width].to_vec(),
            Pooling::Last => rows[rows.len() - width..].to_vec(),
            Pooling::Mean => {
                let mut sums = vec![0.0f64; width];
                for row in rows.chunks_exact(width) {
                    sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
                }
                let count = (rows.len() / width) as f64;
                sums.into_iter().map(|sum| (sum / count) as f32).collect()
            }
        }
    }
}

fn key(model: &Model) -> String {
    format!("{}.pooling_type", model.architecture())
}

fn number(model: &Model, key: &str) -> Result<Option<Pooling>, Error> {
    let Some(got) = model.gguf().metadata().u32(key)? else { return Ok(None) };
    let pooling = usize::try_from(got).ok().and_then(|got| Pooling::ALL.get(got));
    pooling.copied().map(Some).ok_or_else(|| Error::Pooling { key: key.to_owned(), got })
}

/// What length a vector is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// The one that it has.
    None,
    /// That of which the largest magnitude is 32760, to be rounded to 16 bits.
    Max,
    /// 1 by this p-norm: 1 is the sum of magnitudes, 2 is Euclid's.
    Norm(u32),
}

impl Scaling {
    /// Scales a vector; zeros stay zeros.
    pub(crate) fn scale(self, vector: &mut [f32]) {
        let magnitudes = vector.iter().map(|&x| f64::from(x).abs());
        let length = match self {
            Scaling::None => return,
            Scaling::Max => magnitudes.fold(0.0, f64::max) / 32760.0,
            Scaling::Norm(2) => magnitudes.map(|x| x * x).sum::<f64>().sqrt(),
            Scaling::Norm(p) => {
                let p = f64::from(p.max(1));
                magnitudes.map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p)
            }
        };
        if length > 0.0 {
            vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_one() {
        let rows = [1.0, 2.0, 3.0, 6.0, 5.0, 4.0];
        for (pooling, expected) in [
            (Pooling::Mean, vec![3.0, 4.0]),
            (Pooling::Cls, vec![1.0, 2.0]),
            (Pooling::Last, vec![5.0, 4.0]),
            (Pooling::None, rows.to_vec()),
        ] {
            assert_eq!(pooling.pool(&rows, 2), expected, "{pooling:?}");
        }
    }

    #[test]
    fn vectors_get_their_length() {
        for (scaling, expected) in [
            (Scaling::None, [3.0, -4.0]),
            (Scaling::Max, [24570.0, -32760.0]),
            (Scaling::Norm(1), [3.0 / 7.0, -4.0 / 7.0]),
            (Scaling::Norm(2), [0.6, -0.8]),
            (Scaling::Norm(3), [3.0 / 91f32.cbrt(), -4.0 / 91f32.cbrt()]),
        ] {
            let mut vector = [3.0, -4.0];
            scaling.scale(&mut vector);
            let near = vector.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs());
            assert!(near, "{scaling:?}: {vector:?}");
        }
        let mut zeros = [0.0; 2];
        Scaling::Norm(2).scale(&mut zeros);
        assert_eq!(zeros, [0.0; 2]);
    }
}
