//! A call as the template writes it, in parts: what a grammar of calls is made of.

use super::call;
use super::formats::CallFormat;

/// A part of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallPart {
    /// The same in every call.
    Text(String),
    /// The tool's name.
    Name,
    /// The arguments: a JSON object.
    Arguments,
    /// The call's own name: letters and digits, of this number.
    Id(usize),
}

/// What the probe's call is made of.
pub(super) struct Probe<'a> {
    pub name: &'a str,
    pub arguments: &'a serde_json::Map<String, serde_json::Value>,
    pub id: &'a str,
}

/// The parts of the probe's call, which a block begins with that the format reads as far as `end`; `None` where its arguments are
/// no JSON there.
pub(super) fn parts(format: &CallFormat, block: &str, end: usize, probe: &Probe<'_>) -> Option<Vec<CallPart>> {
    let (_, rest) = call::read(format, &block[..end], None)?;
    let call = match format.close {
        "" => &block[..end - rest.len()],
        close => &block[..end + close.len()],
    };
    let name = call.find(probe.name)?;
    let behind = name + probe.name.len();
    let opens = call[behind..].match_indices('{').map(|(at, _)| behind + at);
    let read = |at: usize| {
        let (value, rest) = call::first_value(&call[at..])?;
        (value.as_object() == Some(probe.arguments)).then_some((at, call.len() - rest.len()))
    };
    let (from, to) = opens.into_iter().find_map(read)?;
    let mut parts = Vec::new();
    text(&call[..name], probe, &mut parts);
    parts.push(CallPart::Name);
    text(&call[behind..from], probe, &mut parts);
    parts.push(CallPart::Arguments);
    text(&call[to..], probe, &mut parts);
    Some(parts)
}

/// A text, in which the call's own name may be.
fn text(text: &str, probe: &Probe<'_>, parts: &mut Vec<CallPart>) {
    for (n, text) in text.split(probe.id).enumerate() {
        if n > 0 {
            parts.push(CallPart::Id(probe.id.len()));
        }
        if !text.is_empty() {
            parts.push(CallPart::Text(text.to_owned()));
        }
    }
}
