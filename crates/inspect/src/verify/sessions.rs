//! Runs that must agree, through the public interface: a prompt at once or token by token, after going back or afresh,
//! on one thread or several, observed or not.

use candor::{Error, KvFormat, LoadOptions, Logits, Model, Observed, Observer, Role, Session, SessionOptions};
use candor_verify::FLOOR;

use super::{
    against::Noise,
    report::{Check, Outcome, Subject},
};

/// On backends whose results may depend on how many rows go together: D3's gate of a quantized product, doubled.
pub(super) const SESSIONS_QUANTIZED: f64 = 3e-2;

/// What two runs may differ by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Agreement {
    /// Not a bit.
    Bits,
    /// The root mean square of the difference, relative to the logits'.
    Within(f64),
}

/// The tokens that the runs are made of, and how they are stored.
pub(super) struct Runs<'a> {
    pub(super) model: &'a Model,
    /// The text that the tokens answer; empty where the model has no encoder.
    pub(super) text: &'a [u32],
    pub(super) tokens: &'a [u32],
    pub(super) keys: KvFormat,
    pub(super) values: KvFormat,
    pub(super) agreement: Agreement,
}

/// Runs, and the logits of the last token in a fresh session that evaluates all at once.
pub(super) struct Sessions<'a> {
    runs: Runs<'a>,
    fresh: Vec<f32>,
}

impl<'a> Sessions<'a> {
    pub(super) fn new(runs: Runs<'a>) -> Result<Sessions<'a>, Error> {
        let fresh = runs.at_once(runs.model)?;
        Ok(Sessions { runs, fresh })
    }
}

impl Runs<'_> {
    fn session(&self, model: &Model) -> Result<Session, Error> {
        let (context, keys, values) = ((self.tokens.len() + 1).max(self.text.len()), self.keys, self.values);
        let options = SessionOptions::default().context(context).fit(false).keys(keys).values(values);
        let mut session = model.session(&options)?;
        if !self.text.is_empty() {
            session.read_text(self.text)?;
        }
        Ok(session)
    }

    /// Logits of the last token when all are evaluated at once.
    fn at_once(&self, model: &Model) -> Result<Vec<f32>, Error> {
        let mut session = self.session(model)?;
        session.evaluate(self.tokens)?;
        Ok(session.logits().to_vec())
    }
}

impl Sessions<'_> {
    /// The prompt in one pass gives the same logits at every position as token by token.
    pub(super) fn prefill_and_steps(&self) -> Result<Check, Error> {
        let Runs { model, tokens, agreement, .. } = self.runs;
        let (mut prefill, mut steps) = (Vec::new(), Vec::new());
        self.runs.session(model)?.evaluate_each(tokens, |_, row| prefill.push(row.to_vec()))?;
        let mut session = self.runs.session(model)?;
        for token in tokens {
            session.evaluate(&[*token])?;
            steps.push(session.logits().to_vec());
        }
        let rows = prefill.iter().zip(&steps).enumerate();
        let outcome = first_failure(rows.map(|(i, (a, b))| (format!("position {i}"), agreement.of(a, b))));
        Ok(check("prefill against token by token", format!("{} positions", prefill.len()), outcome))
    }

    /// The prompt as if it had been generated gives the same logits, within what the kernels of prompts and those of decoding
    /// round ([`Noise::of_roles`]).
    pub(super) fn decoded(&self) -> Result<Check, Error> {
        let Runs { model, tokens, .. } = self.runs;
        let mut session = self.runs.session(model)?;
        session.evaluate(&tokens[..1])?;
        tokens[1..].iter().try_for_each(|&token| session.decode(token))?;
        let bound = Noise::of_roles(model).unwrap_or(SESSIONS_QUANTIZED);
        let outcome = Agreement::Within(bound).of(&self.fresh, session.logits());
        Ok(check("prefill against decoding", format!("{} tokens", tokens.len()), outcome))
    }

    /// Going back to a prefix and on from there gives what a fresh session gives, whatever was cached in between.
    pub(super) fn cached_and_fresh(&self) -> Result<Check, Error> {
        let Runs { model, tokens, agreement, .. } = self.runs;
        let keep = tokens.len() / 2;
        let mut session = self.runs.session(model)?;
        let mut other = tokens.to_vec();
        other[keep..].reverse();
        if let Some(token) = other.get_mut(keep) {
            *token = (*token + 1) % model.config().vocab as u32;
        }
        session.evaluate(&other)?;
        session.truncate(keep);
        session.evaluate(&tokens[keep..])?;
        let outcome = agreement.of(&self.fresh, session.logits());
        let detail = format!("{keep} tokens kept, {} evaluated again", tokens.len() - keep);
        Ok(check("cached against fresh", detail, outcome))
    }

    /// One thread gives what several give, to the bit.
    pub(super) fn threads(&self, load: &LoadOptions) -> Result<Check, Error> {
        let model = self.runs.model;
        let with =
            |threads| Model::from_gguf(model.gguf().clone(), &load.clone().threads(threads).threads_batch(threads));
        let one = with(1)?;
        let few = if one.device_label() == model.device_label() { Some(with(2)?) } else { None };
        let (several, logits) = match &few {
            Some(two) => (two, self.runs.at_once(two)?),
            None => (model, self.fresh.clone()),
        };
        let outcome = Agreement::Bits.of(&self.runs.at_once(&one)?, &logits);
        let detail = format!("{} | {}", one.device_label(), several.device_label());
        Ok(check("1 thread against several", detail, outcome))
    }

    /// Looking on changes nothing.
    pub(super) fn observed(&self) -> Result<Check, Error> {
        let mut session = self.runs.session(self.runs.model)?;
        let mut seen = Count(0);
        session.observe(self.runs.tokens, Role::Prefill, Logits::Last, &mut seen)?;
        let outcome = match seen.0 {
            0 => Outcome::Failed("nothing was shown".to_owned()),
            _ => Agreement::Bits.of(&self.fresh, session.logits()),
        };
        Ok(check("observed against not", format!("{} values shown", seen.0), outcome))
    }
}

fn check(name: &str, detail: String, outcome: Outcome) -> Check {
    Check { subject: Subject::Session, name: name.to_owned(), detail, outcome }
}

struct Count(usize);

impl Observer for Count {
    fn value(&mut self, _: &Observed<'_>) {
        self.0 += 1;
    }
}

impl Agreement {
    fn of(self, a: &[f32], b: &[f32]) -> Outcome {
        if a.len() != b.len() || a.is_empty() {
            return Outcome::Failed(format!("{} logits against {}", a.len(), b.len()));
        }
        if let Some(i) = a.iter().chain(b).position(|x| !x.is_finite()) {
            return Outcome::Failed(format!("logit {} is not finite", i % a.len()));
        }
        match self {
            Agreement::Bits => match a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits()) {
                None => Outcome::Passed,
                Some(i) => Outcome::Failed(format!("logit {i}: {} against {}: not the same bits", a[i], b[i])),
            },
            Agreement::Within(bound) => {
                let error = relative(a, b);
                if error <= bound {
                    return Outcome::Passed;
                }
                Outcome::Failed(format!("relative error {error:.1e}, at most {bound:.1e} expected"))
            }
        }
    }
}

/// Root mean square of the difference over that of `b`.
pub(super) fn relative(a: &[f32], b: &[f32]) -> f64 {
    let squares = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>();
    let difference = squares(&mut a.iter().zip(b).map(|(&a, &b)| f64::from(a) - f64::from(b)));
    (difference / squares(&mut b.iter().map(|&b| f64::from(b))).max(FLOOR)).sqrt()
}

/// The first failure, named.
fn first_failure(outcomes: impl Iterator<Item = (String, Outcome)>) -> Outcome {
    for (name, outcome) in outcomes {
        if let Outcome::Failed(why) = outcome {
            return Outcome::Failed(format!("{name}: {why}"));
        }
    }
    Outcome::Passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_is_of_bits_or_of_size() {
        let (a, b) = ([1.0, 2.0], [1.0, 2.0f32.next_up()]);
        assert_eq!(Agreement::Bits.of(&a, &a), Outcome::Passed);
        assert!(matches!(Agreement::Bits.of(&a, &b), Outcome::Failed(_)));
        assert_eq!(Agreement::Within(1e-6).of(&a, &b), Outcome::Passed);
        for (a, b) in [(&[1.0, 2.0][..], &[1.0][..]), (&[], &[]), (&[f32::NAN, 1.0], &[f32::NAN, 1.0])] {
            assert!(matches!(Agreement::Within(1.0).of(a, b), Outcome::Failed(_)), "{a:?}");
            assert!(matches!(Agreement::Bits.of(a, b), Outcome::Failed(_)), "{a:?}");
        }
    }
}
