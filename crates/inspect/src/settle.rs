//! Which token the rows of a log are, where it does not say: the reading under which what it prints is right.

use candor::Gguf;

use crate::{DiagnoseError, Diagnosis, Outcome, Trace, import::Imported};

/// A diagnosis, and the reading of the dump that it is of.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The diagnosis.
    pub diagnosis: Diagnosis,
    /// The dump as it was taken.
    pub trace: Trace,
    /// The token that rows were taken to be which the dump does not say; `None` where it says all, or nothing speaks for
    /// another than the usual.
    pub rows: Option<usize>,
}

/// Diagnoses a dump with [`diagnose`](crate::diagnose()) or [`judge`](crate::judge). Rows of a log that does not say their token are taken to be of the token for which they are right; if
/// they are right for none, of the one for which a known fault explains them; else of the first, logits of the last.
///
/// # Errors
/// As [`diagnose`](crate::diagnose()).
pub fn settle(
    gguf: &Gguf,
    imported: &Imported,
    diagnose: impl Fn(&Gguf, &Trace) -> Result<Diagnosis, DiagnoseError>,
) -> Result<Settled, DiagnoseError> {
    let mut best: Option<(u8, Settled)> = None;
    for (place, trace) in imported.readings() {
        let diagnosis = match diagnose(gguf, &trace) {
            Ok(diagnosis) => diagnosis,
            Err(error) if best.is_none() => return Err(error),
            Err(_) => continue,
        };
        let rank = match diagnosis.outcome {
            Outcome::Healthy | Outcome::Harmless => 0,
            Outcome::Faulty => 1,
            Outcome::Undecided => 2,
            Outcome::Unknown => 3,
        };
        if best.as_ref().is_none_or(|(other, _)| rank < *other) {
            let rows = place.and_then(|place| usize::try_from(place).ok());
            best = Some((rank, Settled { diagnosis, trace, rows }));
        }
        if rank == 0 {
            break;
        }
    }
    best.map(|(_, settled)| settled).ok_or(DiagnoseError::NoTokens)
}
