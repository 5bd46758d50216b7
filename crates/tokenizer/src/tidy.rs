//! Takes back the spaces that WordPiece's decoding puts around punctuation: "it ' s fine ." becomes "it's fine.". The
//! rules are those of Hugging Face's `clean_up_tokenization_spaces`, as llama.cpp has them. Works on a stream: what the
//! next character can still change is held back.

/// The end of the text so far that is not decided: empty, or a space, an apostrophe after one, both with a space.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tidy {
    held: String,
}

impl Tidy {
    /// Adds `text`, and appends to `out` what is decided.
    pub fn push(&mut self, text: &str, out: &mut String) {
        for c in text.chars() {
            self.push_char(c, out);
        }
    }

    /// Appends what is left at the end.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&std::mem::take(&mut self.held));
    }

    fn push_char(&mut self, c: char, out: &mut String) {
        let mark = matches!(c, '?' | '!' | '.' | ',');
        match (self.held.as_str(), c) {
            ("", ' ') | (" ", '\'') | (" '", ' ' | 'r' | 'v') => return self.held.push(c),
            // The space before a mark goes.
            (" ", _) if mark => self.held.clear(),
            (" ' ", _) if mark => self.held.pop().map_or((), drop),
            // An apostrophe between spaces takes both along.
            (" ' ", _) => self.held = "'".to_owned(),
            (" '", 's' | 'm') | (" 'r" | " 'v", 'e') => drop(self.held.remove(0)),
            _ => {}
        }
        self.finish(out);
        if c == ' ' { self.held.push(c) } else { out.push(c) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_taken_back() {
        for (text, expected) in [
            ("hello , world ! ok ?", "hello, world! ok?"),
            ("it ' s john ' s", "it's john's"),
            ("we 're i 'm he 's they 've", "we're i'm he's they've"),
            ("i 'd you 'll can 't", "i 'd you 'll can 't"),
            ("a  b   c", "a  b   c"),
            ("a ' .", "a '."),
            ("end '", "end '"),
            ("end ", "end "),
            ("a ' ' b", "a'' b"),
            ("x 'rx 'vy", "x 'rx 'vy"),
        ] {
            let (mut tidy, mut out) = (Tidy::default(), String::new());
            tidy.push(text, &mut out);
            tidy.finish(&mut out);
            assert_eq!(out, expected, "{text}");
            let (mut tidy, mut out) = (Tidy::default(), String::new());
            text.split_inclusive(' ').for_each(|part| tidy.push(part, &mut out));
            tidy.finish(&mut out);
            assert_eq!(out, expected, "{text}, in parts");
        }
    }
}
