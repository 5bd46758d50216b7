//! Which number of the file a fitted number is, or is made of: `4 = 1 / logit_scale`.

use candor_gguf::{Metadata, Value};

/// Largest relative distance to a number that a fitted one is said to be.
const SAME: f64 = 1e-4;

/// A number as a formula of one of the model's numbers in the file, the simplest; `None` where it matches no formula.
/// Small whole numbers are not looked for, since many keys have them.
pub(super) fn formula(metadata: &Metadata, arch: &str, number: f64) -> Option<String> {
    if number.fract() == 0.0 && (0.0..4.0).contains(&number) {
        return None;
    }
    let prefix = format!("{arch}.");
    let numbers = || {
        metadata.iter().filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?, plain(value)?))).filter(
            // Of one and zero everything is made.
            |&(_, x)| x > 0.0 && x != 1.0,
        )
    };
    type Form = (fn(f64) -> f64, &'static str);
    const FORMS: [Form; 5] = [
        (|x| x, "{}"),
        (|x| 1.0 / x, "1 / {}"),
        (f64::sqrt, "sqrt({})"),
        (|x| 1.0 / x.sqrt(), "1 / sqrt({})"),
        (|x| x * x, "{}^2"),
    ];
    FORMS.iter().find_map(|(form, text)| {
        let mut same = numbers().filter(|&(_, x)| (form(x) / number - 1.0).abs() < SAME);
        same.next().map(|(key, _)| text.replace("{}", key))
    })
}

/// A single number.
fn plain(value: &Value) -> Option<f64> {
    match *value {
        Value::U32(x) => Some(f64::from(x)),
        Value::I32(x) => Some(f64::from(x)),
        Value::U64(x) => Some(x as f64),
        Value::F32(x) => Some(f64::from(x)),
        Value::F64(x) => Some(x),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_said_in_the_files_words() {
        let mut metadata = Metadata::new();
        metadata.insert("granite.logit_scale", 0.25f32);
        metadata.insert("granite.attention.key_length", 80u32);
        metadata.insert("general.alignment", 32u32);
        let said = |number: f64| formula(&metadata, "granite", number);
        assert_eq!(said(0.25).as_deref(), Some("logit_scale"));
        assert_eq!(said(4.00001).as_deref(), Some("1 / logit_scale"));
        assert_eq!(said(1.0 / 80f64.sqrt()).as_deref(), Some("1 / sqrt(attention.key_length)"));
        assert_eq!(said(32.0), None);
        assert_eq!(said(2.0), None);
    }
}
