//! Reading an answer while it comes: taken apart where its template says how, printed, and kept in parts.

use std::io::Write;

use candor::{AnswerParser, AnswerPart};

use super::printer::{self, Printer, Segment};
use crate::{errors::Error, paint::Paint};

/// Reads one answer.
pub struct Reader {
    /// `None` where the text is printed as it is.
    parser: Option<AnswerParser>,
    printer: Printer,
    paint: Paint,
    parts: Vec<AnswerPart>,
}

impl Reader {
    /// For a text that is printed as it is, or one that a parser takes apart.
    pub fn new(parser: Option<AnswerParser>, hides_thinking: bool, paint: Paint) -> Reader {
        Reader { parser, printer: Printer::new(hides_thinking), paint, parts: Vec::new() }
    }

    /// Takes the next piece of text, and prints what is certain by now.
    pub fn push(&mut self, text: &str, out: &mut impl Write) -> Result<(), Error> {
        let parts = match &mut self.parser {
            Some(parser) => parser.push(text),
            None if text.is_empty() => Vec::new(),
            None => vec![AnswerPart::Content(text.to_owned())],
        };
        self.take(parts, out)
    }

    /// Prints what was held back, and ends the line; the parts, each kind joined where nothing is between.
    pub fn finish(mut self, out: &mut impl Write) -> Result<Vec<AnswerPart>, Error> {
        let rest = self.parser.take().map(AnswerParser::finish).unwrap_or_default();
        self.take(rest, out)?;
        printer::write(&self.printer.finish(), self.paint, out)?;
        out.flush()?;
        Ok(self.parts)
    }

    fn take(&mut self, parts: Vec<AnswerPart>, out: &mut impl Write) -> Result<(), Error> {
        for part in parts {
            let segments: Vec<Segment> = self.printer.push(&part);
            printer::write(&segments, self.paint, out)?;
            match (self.parts.last_mut(), part) {
                (Some(AnswerPart::Content(said)), AnswerPart::Content(more)) => said.push_str(&more),
                (Some(AnswerPart::Reasoning(said)), AnswerPart::Reasoning(more)) => said.push_str(&more),
                (_, part) => self.parts.push(part),
            }
        }
        Ok(())
    }
}
