//! What of an answer is shown, and how it looks: parts as they come, to segments of text with a look. Writing them, and
//! whatever breaks lines, comes after it.

use std::io::{self, Write};

use candor::{AnswerPart, ToolCall};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::paint::{Paint, Style};

/// How a text stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Not at all: what the user reads.
    Plain,
    /// Less than the rest: what the model thinks.
    Dim,
}

/// A text and its look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub look: Look,
    pub text: String,
}

/// What stands before and after what the model thinks: Ollama's words.
const OPEN: &str = "Thinking...\n";
const CLOSE: &str = "...done thinking.\n";
/// What stands before a tool call.
const CALL: &str = "[tool call] ";

/// The state of an answer that is being printed.
#[derive(Clone, Debug)]
pub struct Printer {
    hides_thinking: bool,
    is_thinking: bool,
    /// Whether the next text begins a line.
    begins_line: bool,
    /// Whether line breaks at the beginning of the next content are left out, since one was made before it.
    drops_breaks: bool,
}

impl Printer {
    /// A printer at the beginning of an answer, which begins a line.
    pub fn new(hides_thinking: bool) -> Printer {
        Printer { hides_thinking, is_thinking: false, begins_line: true, drops_breaks: false }
    }

    /// What is shown of the next part.
    pub fn push(&mut self, part: &AnswerPart) -> Vec<Segment> {
        let mut shown = Vec::new();
        match part {
            AnswerPart::Reasoning(_) if self.hides_thinking => {}
            AnswerPart::Reasoning(text) => {
                if !self.is_thinking {
                    self.end_line(Look::Plain, &mut shown);
                    self.put(Look::Dim, OPEN, &mut shown);
                    self.is_thinking = true;
                    self.drops_breaks = true;
                }
                self.say(Look::Dim, text, &mut shown);
            }
            // What the model has left to say is not known yet.
            AnswerPart::Content(text) if self.is_thinking && text.trim_matches(['\r', '\n']).is_empty() => {}
            AnswerPart::Content(text) => {
                if self.end_thinking(&mut shown) {
                    self.put(Look::Plain, "\n", &mut shown);
                }
                self.say(Look::Plain, text, &mut shown);
            }
            AnswerPart::Call(call) => {
                if self.end_thinking(&mut shown) {
                    self.put(Look::Plain, "\n", &mut shown);
                }
                self.end_line(Look::Plain, &mut shown);
                self.put(Look::Plain, &format!("{CALL}{}\n", written(call)), &mut shown);
                self.drops_breaks = true;
            }
        }
        shown
    }

    /// What is shown at the end: a line is ended.
    pub fn finish(&mut self) -> Vec<Segment> {
        let mut shown = Vec::new();
        self.end_line(if self.is_thinking { Look::Dim } else { Look::Plain }, &mut shown);
        shown
    }

    /// A text of the model's.
    fn say(&mut self, look: Look, text: &str, shown: &mut Vec<Segment>) {
        let text = if self.drops_breaks { text.trim_start_matches(['\r', '\n']) } else { text };
        if !text.is_empty() {
            self.drops_breaks = false;
            self.put(look, text, shown);
        }
    }

    /// Says that the model has done thinking, if it was; whether that was said.
    fn end_thinking(&mut self, shown: &mut Vec<Segment>) -> bool {
        let ends = std::mem::take(&mut self.is_thinking);
        if ends {
            self.end_line(Look::Dim, shown);
            self.put(Look::Dim, CLOSE, shown);
            self.drops_breaks = true;
        }
        ends
    }

    fn end_line(&mut self, look: Look, shown: &mut Vec<Segment>) {
        if !self.begins_line {
            self.put(look, "\n", shown);
        }
    }

    fn put(&mut self, look: Look, text: &str, shown: &mut Vec<Segment>) {
        self.begins_line = text.ends_with('\n');
        shown.push(Segment { look, text: text.to_owned() });
    }
}

/// Writes segments.
pub fn write(segments: &[Segment], paint: Paint, out: &mut impl Write) -> io::Result<()> {
    for Segment { look, text } in segments {
        match look {
            Look::Plain => out.write_all(text.as_bytes())?,
            Look::Dim => out.write_all(paint.paint(Style::Dim, text).as_bytes())?,
        }
    }
    if segments.is_empty() { Ok(()) } else { out.flush() }
}

/// A call as it is shown: `get_weather({"city": "Paris"})`.
fn written(call: &ToolCall) -> String {
    let mut json = Vec::new();
    let wrote = call.arguments.serialize(&mut Serializer::with_formatter(&mut json, Spaced));
    let json = String::from_utf8(json).ok().filter(|_| wrote.is_ok());
    format!("{}({})", call.name, json.unwrap_or_default())
}

/// JSON on one line, with a space after commas and colons.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call() -> AnswerPart {
        let arguments = json!({"city": "Paris", "days": [1, {"a": null}]}).as_object().unwrap().clone();
        AnswerPart::Call(ToolCall { name: "get_weather".into(), arguments, id: None })
    }

    /// What is shown, with dim text in brackets.
    fn shown(parts: &[AnswerPart], hides: bool) -> String {
        let mut printer = Printer::new(hides);
        let mut segments: Vec<Segment> = parts.iter().flat_map(|part| printer.push(part)).collect();
        segments.extend(printer.finish());
        let marked = segments.iter().map(|Segment { look, text }| match look {
            Look::Plain => text.clone(),
            Look::Dim => format!("<{text}>"),
        });
        marked.collect::<String>().replace("><", "")
    }

    #[test]
    fn parts_stand_apart() {
        let think = |text: &str| AnswerPart::Reasoning(text.into());
        let say = |text: &str| AnswerPart::Content(text.into());
        let line = "[tool call] get_weather({\"city\": \"Paris\", \"days\": [1, {\"a\": null}]})\n";
        let thought = "<Thinking...\nHm.\n...done thinking.\n>\n";
        let cases: Vec<(Vec<AnswerPart>, String)> = vec![
            (vec![], String::new()),
            (vec![say(" a"), say("b\n")], " ab\n".into()),
            (vec![say("a")], "a\n".into()),
            (vec![think("Hm."), say("a")], format!("{thought}a\n")),
            (vec![think("Hm."), say("\n"), say("\n a")], format!("{thought} a\n")),
            (vec![think("H"), think("m.\n"), say("a")], format!("{thought}a\n")),
            (vec![think("Hm.")], "<Thinking...\nHm.\n>".into()),
            (vec![think("Hm."), call()], format!("{thought}{line}")),
            (vec![say("a"), call(), call(), say("\n\nb")], format!("a\n{line}{line}b\n")),
            (vec![say("a"), think("Hm."), say("\n\nb")], format!("a\n{thought}b\n")),
        ];
        for (parts, expected) in cases {
            assert_eq!(shown(&parts, false), expected, "{parts:?}");
        }
        assert_eq!(shown(&[think("Hm."), say("a"), think("Hm."), call()], true), format!("a\n{line}"));
        assert_eq!(shown(&[think("Hm.")], true), "");
    }

    #[test]
    fn dim_text_is_dim_only_in_colours() {
        let segments = [(Look::Dim, "a\n"), (Look::Plain, "b")].map(|(look, text)| Segment { look, text: text.into() });
        for (paint, expected) in [(Paint::Plain, "a\nb"), (Paint::Colours, "\u{1b}[2ma\n\u{1b}[0mb")] {
            let mut out = Vec::new();
            write(&segments, paint, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
