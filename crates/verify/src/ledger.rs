//! What was checked, how far off the worst was, and where. How an operation is computed is `formulas` and `product`.

use serde::{Deserialize, Serialize};

/// A kind of operation, with the weights' format where there are weights to multiply by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// `rms_norm`, `matmul`, `kv_write+attend`...
    pub operation: String,
    /// The weights' format, such as `Q4_K`; `None` where nothing is multiplied by a matrix.
    pub format: Option<String>,
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.operation)?;
        self.format.as_ref().map_or(Ok(()), |format| write!(f, " {format}"))
    }
}

/// Where in a run a value was computed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The weight that took part, where one did.
    pub weight: Option<String>,
    /// The layer, counted from 0; `None` before the first and after the last.
    pub layer: Option<usize>,
    /// The pass: 0 is the prompt, 1 the first token decoded; after the last, all again with the fusions switched off.
    pub pass: usize,
    /// Position of the row's token; `None` where the whole operation is meant.
    pub position: Option<u32>,
    /// Element of the row, an output of a matrix; `None` where the whole operation is meant.
    pub column: Option<usize>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.weight, self.layer) {
            (Some(weight), _) => write!(f, "{weight}")?,
            (None, Some(layer)) => write!(f, "layer {layer}")?,
            (None, None) => write!(f, "no layer")?,
        }
        write!(f, ", pass {}", self.pass)?;
        self.position.map_or(Ok(()), |position| write!(f, ", position {position}"))?;
        self.column.map_or(Ok(()), |column| write!(f, ", element {column}"))
    }
}

/// An error next to what it may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// Distance from the expected value, normalised as the class says; `None` where it is no number.
    pub error: Option<f64>,
    /// The largest that would pass.
    pub bound: f64,
    /// The value that the backend gave; `None` where it is not finite, or the whole operation is meant.
    pub got: Option<f64>,
    /// The value that the formulas give; `None` likewise.
    pub expected: Option<f64>,
    /// Where.
    pub place: Place,
}

impl Worst {
    /// The error in multiples of its bound: up to 1 passes.
    pub fn ratio(&self) -> f64 {
        self.error.map_or(f64::INFINITY, |error| if error <= 0.0 { 0.0 } else { error / self.bound })
    }

    /// Whether the error is within its bound. An error that is no number never is.
    pub fn passes(&self) -> bool {
        self.ratio() <= 1.0
    }
}

/// One class of operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// What it is.
    pub class: Class,
    /// Calls that were checked.
    pub calls: usize,
    /// Elements that were checked.
    pub elements: usize,
    /// What errors are measured against, and where the bound comes from.
    pub measure: String,
    /// The element that is worst in multiples of its bound.
    pub worst: Worst,
    /// For products: the call whose error is worst as a whole, root mean square over that of the expected values.
    pub worst_call: Option<Worst>,
    /// Calls that failed.
    pub failed_calls: usize,
}

impl Operation {
    /// Whether every check of the class was within its bound.
    pub fn passes(&self) -> bool {
        self.failed_calls == 0
    }

    /// The worse of [`Operation::worst`] and [`Operation::worst_call`].
    pub fn worst_of_all(&self) -> &Worst {
        self.worst_call.as_ref().filter(|call| call.ratio() > self.worst.ratio()).unwrap_or(&self.worst)
    }
}

/// One element of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    pub(crate) row: usize,
    pub(crate) column: usize,
    pub(crate) got: f32,
    pub(crate) expected: f64,
    /// What the error is divided by.
    pub(crate) scale: f64,
    /// The largest error that passes, divided likewise.
    pub(crate) bound: f64,
}

/// Scales are at least this, so that errors of vanishing values do not count: far above f32's subnormal range.
pub const FLOOR: f64 = 1e-30;

/// The book of a run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) operations: Vec<Operation>,
    /// The first call that failed, by index into `operations`, and its worst element.
    pub(crate) first_failure: Option<(usize, Worst)>,
}

/// A call that is being entered.
pub(crate) struct Call<'a> {
    pub(crate) class: Class,
    pub(crate) measure: &'static str,
    pub(crate) place: Place,
    /// Position of each row's token.
    pub(crate) positions: &'a [u32],
}

impl Ledger {
    /// Enters a call. `whole` is the error of the call as a whole and its bound, both relative.
    pub(crate) fn enter(&mut self, call: Call<'_>, elements: impl Iterator<Item = Element>, whole: Option<(f64, f64)>) {
        let mut worst: Option<(f64, Element)> = None;
        let mut count = 0;
        for element in elements {
            count += 1;
            let ratio = ratio(&element);
            if worst.is_none_or(|(most, _)| ratio > most) {
                worst = Some((ratio, element));
            }
        }
        let Some((_, element)) = worst else { return };
        let worst = Worst {
            error: error(&element),
            bound: element.bound,
            got: finite(f64::from(element.got)),
            expected: finite(element.expected),
            place: Place {
                position: call.positions.get(element.row).copied(),
                column: Some(element.column),
                ..call.place.clone()
            },
        };
        let whole = whole.map(|(error, bound)| Worst {
            error: finite(error),
            bound,
            got: None,
            expected: None,
            place: call.place.clone(),
        });
        let index = self.operations.iter().position(|operation| operation.class == call.class);
        let index = index.unwrap_or_else(|| {
            self.operations.push(Operation {
                class: call.class,
                calls: 0,
                elements: 0,
                measure: call.measure.to_owned(),
                worst: worst.clone(),
                worst_call: whole.clone(),
                failed_calls: 0,
            });
            self.operations.len() - 1
        });
        let operation = &mut self.operations[index];
        operation.calls += 1;
        operation.elements += count;
        let failed = [Some(&worst), whole.as_ref()].into_iter().flatten().find(|worst| !worst.passes());
        if let Some(failed) = failed {
            operation.failed_calls += 1;
            self.first_failure.get_or_insert_with(|| (index, failed.clone()));
        }
        if worst.ratio() > operation.worst.ratio() {
            operation.worst = worst;
        }
        if whole.as_ref().map(Worst::ratio) > operation.worst_call.as_ref().map(Worst::ratio) {
            operation.worst_call = whole;
        }
    }
}

fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

/// The normalised error, `None` where either value is no number.
fn error(element: &Element) -> Option<f64> {
    finite((f64::from(element.got) - element.expected).abs() / element.scale.max(FLOOR))
}

fn ratio(element: &Element) -> f64 {
    match error(element) {
        None => f64::INFINITY,
        Some(error) if error <= 0.0 => 0.0,
        Some(error) => error / element.bound,
    }
}
