//! The fields of a request's JSON: each is taken once, and one that nobody took is refused by its name.

use candor::{Encode, Sampling, Tokenizer};
use serde_json::{Map, Number, Value};

use crate::refusal::Refusal;

/// What is left of a request's fields.
pub struct Fields(Map<String, Value>);

/// The names of all fields that anyone asked for.
#[cfg(test)]
pub static ASKED: std::sync::Mutex<std::collections::BTreeSet<String>> =
    std::sync::Mutex::new(std::collections::BTreeSet::new());

impl Fields {
    /// Those of a body.
    ///
    /// # Errors
    /// If it is no JSON object.
    pub fn of(body: &[u8]) -> Result<Fields, Refusal> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Fields(fields)),
            Ok(_) => Err(Refusal::request("the body is no JSON object")),
            Err(error) => Err(Refusal::request(format!("the body is no JSON: {error}"))),
        }
    }

    /// A field's value; `None` where it is missing or null.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        asked(name);
        self.0.shift_remove(name).filter(|value| !value.is_null())
    }

    /// A field's value, which stays.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Whether there is a field.
    pub fn has(&self, name: &str) -> bool {
        asked(name);
        self.0.contains_key(name)
    }

    /// Has a field count under another name.
    pub fn rename(&mut self, from: &str, to: &str) {
        asked(from);
        if let Some(value) = self.0.shift_remove(from) {
            self.0.insert(to.to_owned(), value);
        }
    }

    /// A field of type text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(expected(name, "a string", &other)),
        }
    }

    /// A field that is true or false.
    pub fn flag(&mut self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(expected(name, "true or false", &other)),
        }
    }

    /// A whole number.
    pub fn whole(&mut self, name: &str) -> Result<Option<i64>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Number(number)) => match whole(&number) {
                Some(whole) => Ok(Some(whole)),
                None => Err(expected(name, "a whole number", &Value::Number(number))),
            },
            Some(other) => Err(expected(name, "a whole number", &other)),
        }
    }

    /// An object.
    pub fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(expected(name, "an object", &other)),
        }
    }

    /// A list.
    pub fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(expected(name, "an array", &other)),
        }
    }

    /// A text or a list of them.
    pub fn texts(&mut self, name: &str) -> Result<Vec<String>, Refusal> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text]),
            Some(Value::Array(list)) => {
                let text = |value| match value {
                    Value::String(text) => Ok(text),
                    other => Err(expected(name, "an array of strings", &other)),
                };
                list.into_iter().map(text).collect()
            }
            Some(other) => Err(expected(name, "a string or an array of strings", &other)),
        }
    }

    /// Refuses a field that changes the answer, unless it has a value that does not.
    pub fn refuse(&mut self, name: &str, harmless: impl Fn(&Value) -> bool, message: &str) -> Result<(), Refusal> {
        match self.take(name) {
            Some(value) if !harmless(&value) => Err(Refusal::unsupported(name, message)),
            _ => Ok(()),
        }
    }

    /// The settings of sampling, by the names that llama.cpp's server and OpenAI have for them, over those of the server.
    pub fn sampling(&mut self, base: &Sampling, tokenizer: &Tokenizer) -> Result<Sampling, Refusal> {
        // Every setting has its name in the serialised form.
        let unreadable = |error: serde_json::Error| Refusal::failed(error.to_string());
        let mut settings = serde_json::to_value(base).map_err(unreadable)?;
        let names: Vec<String> = settings.as_object().into_iter().flat_map(Map::keys).cloned().collect();
        for name in names {
            let Some(value) = self.take(&name) else { continue };
            settings[&name] = match (name.as_str(), &value) {
                ("seed", Value::Number(number)) => seed(number)?,
                ("logit_bias", _) => biases(&value, tokenizer)?,
                _ => value,
            };
            if let Err(error) = serde_json::from_value::<Sampling>(settings.clone()) {
                return Err(Refusal::field(&name, error.to_string()));
            }
        }
        let sampling: Sampling = serde_json::from_value(settings).map_err(unreadable)?;
        sampling.validate().map_err(|error| Refusal::request(error.to_string()))?;
        Ok(sampling)
    }

    /// Refuses what nobody took, unless it has no effect on an answer.
    pub fn finish(self, without_effect: &[&str]) -> Result<(), Refusal> {
        without_effect.iter().for_each(|name| asked(name));
        let left = self.0.iter().find(|(name, value)| !value.is_null() && !without_effect.contains(&name.as_str()));
        match left {
            None => Ok(()),
            Some((name, _)) => Err(Refusal::unsupported(name, "this field is not served")),
        }
    }
}

impl From<Map<String, Value>> for Fields {
    fn from(fields: Map<String, Value>) -> Fields {
        Fields(fields)
    }
}

/// Notes a name, for the test of what is described.
fn asked(_name: &str) {
    #[cfg(test)]
    ASKED.lock().unwrap().insert(_name.to_owned());
}

/// A whole number, also one that is written with a fraction of zero.
fn whole(number: &Number) -> Option<i64> {
    let float = || number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9e15).map(|float| float as i64);
    number.as_i64().or_else(float)
}

/// A seed by the server's numbers: negative ones draw another, larger ones are cut to 32 bits as in llama.cpp.
fn seed(number: &Number) -> Result<Value, Refusal> {
    let seed = whole(number).ok_or_else(|| expected("seed", "a whole number", &Value::Number(number.clone())))?;
    Ok(if seed < 0 { Value::Null } else { Value::from(seed as u32) })
}

/// Biases by token, from a list of pairs or from OpenAI's object. A text stands for each of its tokens.
fn biases(value: &Value, tokenizer: &Tokenizer) -> Result<Value, Refusal> {
    let wrong = |got: &Value| expected("logit_bias", "pairs of a token or a text, and a number or false", got);
    let named = |name: &String| name.parse::<u32>().map_or_else(|_| Value::from(name.as_str()), Value::from);
    let pairs: Vec<(Value, &Value)> = match value {
        Value::Object(biases) => biases.iter().map(|(name, bias)| (named(name), bias)).collect(),
        Value::Array(list) => list
            .iter()
            .map(|pair| match pair.as_array().map(Vec::as_slice) {
                Some([token, bias]) => Ok((token.clone(), bias)),
                _ => Err(wrong(pair)),
            })
            .collect::<Result<_, _>>()?,
        other => return Err(wrong(other)),
    };
    let mut biases = Vec::new();
    for (token, bias) in pairs {
        let ids = match &token {
            Value::String(text) => tokenizer.encode(text, Encode::text()),
            number => vec![number.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| wrong(number))?],
        };
        biases.extend(ids.into_iter().map(|id| Value::from(vec![Value::from(id), bias.clone()])));
    }
    Ok(biases.into())
}

/// A value of another type than expected.
pub fn expected(name: &str, what: &str, got: &Value) -> Refusal {
    let mut shown = got.to_string();
    if let Some((end, _)) = shown.char_indices().nth(80) {
        shown.truncate(end);
        shown.push_str("...");
    }
    Refusal::field(name, format!("expected {what}, got {shown}"))
}
