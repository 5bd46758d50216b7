//! The suite of JSON Schema: of each schema, what is valid is allowed and what is not is not, or the schema is refused.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use candor_grammar::Grammar;
use serde_json::{Map, Value};

use crate::reader::{allows, folder};

/// Valid values that are not allowed, by file and the beginning of the case's name.
const NARROWER: &[(&str, &str)] = &[
    // Other spellings of a number.
    ("const", "const with -2.0 matches integer and float types: float -2.0"),
    ("const", "const with 0 does not match other zero-like types: float zero"),
    ("const", "const with 1 does not match true: float one"),
    ("const", "float and integers are equal up to 64-bit representation limits: float"),
    ("enum", "enum with 0 does not match false: float zero"),
    ("enum", "enum with 1 does not match true: float one"),
    ("enum", "enum with [0] does not match [false]: [0.0]"),
    ("enum", "enum with [1] does not match [true]: [1.0]"),
    ("optional/bignum", "integer: a"),
    ("optional/float-overflow", "all integers are multiples of 0.5"),
    ("type", "integer type matches integers: a float with zero fractional part"),
    ("zeroTerminatedFloats", "some languages do not distinguish"),
    // Another order of keys than the schema's.
    ("const", "const with object: same object with different property order"),
    // Leap seconds, and rare spellings.
    ("optional/format/date-time", "validation of date-time strings: a valid date-time with a leap second"),
    ("optional/format/time", "validation of time strings: a valid time string with leap second"),
    ("optional/format/time", "validation of time strings: valid leap second"),
    ("optional/format/email", "validation of e-mail addresses: a quoted string"),
    ("optional/format/email", "validation of e-mail addresses: an IPv6-address-literal"),
    ("optional/format/ipv6", "validation of IPv6 addresses: mixed format"),
    ("optional/format/ipv6", "validation of IPv6 addresses: a long valid ipv6"),
    // What a schema of schemas leaves out is served all the same.
    ("vocabulary", "schema that uses custom metaschema with with no validation vocabulary: no validation"),
    // Before draft 2019-09 nothing beside $ref counts; here it does.
    ("ref", "ref overrides any sibling keywords: ref valid, maxItems ignored"),
];

/// The drafts, and how a schema says that it is of one.
const DRAFTS: [(&str, &str); 5] = [
    ("draft4", "http://json-schema.org/draft-04/schema#"),
    ("draft6", "http://json-schema.org/draft-06/schema#"),
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
    ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
];

#[derive(Default, Debug)]
struct Counts {
    schemas: usize,
    refused: usize,
    allowed: usize,
    kept_out: usize,
    narrower: usize,
}

#[test]
fn what_is_valid_is_allowed_and_what_is_not_is_not() {
    let Some(folder) = folder("jsonschema/tests") else { return };
    let mut wrong = Vec::new();
    for (draft, uri) in DRAFTS {
        let mut counts = Counts::default();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for file in files(&folder.join(draft)) {
            let name = file.strip_prefix(&folder).unwrap().with_extension("");
            let name = name.to_str().unwrap().to_owned();
            // Formats are asserted, which this file asks not to be.
            if name.ends_with("/format") && !name.contains("optional") {
                continue;
            }
            for group in candor_testing::json(&file).as_array().unwrap() {
                let mut schema = group["schema"].clone();
                if let Value::Object(keywords) = &mut schema {
                    keywords.entry("$schema").or_insert(uri.into());
                }
                counts.schemas += 1;
                let grammar = match Grammar::json_schema(&schema) {
                    Ok(grammar) => grammar,
                    Err(error) => {
                        counts.refused += 1;
                        let reason = error.to_string().chars().take(60).collect();
                        *reasons.entry(reason).or_default() += 1;
                        continue;
                    }
                };
                let mut order = Vec::new();
                keys(&schema, &mut order);
                for case in group["tests"].as_array().unwrap() {
                    let text = ordered(&case["data"], &order).to_string();
                    let at = format!(
                        "{}: {}",
                        group["description"].as_str().unwrap(),
                        case["description"].as_str().unwrap()
                    );
                    match (case["valid"].as_bool().unwrap(), allows(&grammar, &text)) {
                        (true, true) => counts.allowed += 1,
                        (false, false) => counts.kept_out += 1,
                        (true, false)
                            if NARROWER.iter().any(|(file, case)| name.ends_with(file) && at.starts_with(case)) =>
                        {
                            counts.narrower += 1;
                        }
                        (valid, _) => wrong.push(format!("{name}: {at}: valid: {valid}: {text}")),
                    }
                }
            }
        }
        let Counts { schemas, refused, allowed, kept_out, narrower } = counts;
        let _ = writeln!(
            std::io::stderr(),
            "{draft}: {schemas} schemas, {refused} refused; {allowed} valid values allowed, {narrower} not; {kept_out} invalid ones kept out"
        );
        for (reason, count) in reasons.iter().filter(|_| std::env::var_os("CANDOR_REASONS").is_some()) {
            let _ = writeln!(std::io::stderr(), "    {count:4} {reason}");
        }
        assert!(allowed > 100 && kept_out > 100, "{draft}");
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all.sort();
    all
}

/// The names of properties in the order in which a schema has them.
fn keys(schema: &Value, order: &mut Vec<String>) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match (keyword.as_str(), value) {
                    ("properties", Value::Object(properties)) => {
                        order.extend(
                            properties.keys().filter(|name| !order.contains(name)).cloned().collect::<Vec<_>>(),
                        );
                    }
                    ("required", Value::Array(names)) => {
                        let names = names.iter().filter_map(Value::as_str).map(str::to_owned);
                        order.extend(names.filter(|name| !order.contains(name)).collect::<Vec<_>>());
                    }
                    _ => {}
                }
                keys(value, order);
            }
        }
        Value::Array(all) => all.iter().for_each(|value| keys(value, order)),
        _ => {}
    }
}

/// A value whose keys are in this order.
fn ordered(value: &Value, order: &[String]) -> Value {
    match value {
        Value::Object(fields) => {
            let place = |name: &str| order.iter().position(|other| other == name).unwrap_or(order.len());
            let mut fields: Vec<(String, Value)> =
                fields.iter().map(|(name, value)| (name.clone(), ordered(value, order))).collect();
            fields.sort_by_key(|(name, _)| place(name));
            fields.into_iter().collect::<Map<_, _>>().into()
        }
        Value::Array(all) => all.iter().map(|value| ordered(value, order)).collect(),
        other => other.clone(),
    }
}
