//! Messages of several lines: a line that ends in a backslash goes on, and so does a text that begins with `"""` until
//! a line ends with it.

const QUOTES: &str = "\"\"\"";

/// Whether a message is whole.
pub fn is_whole(text: &str) -> bool {
    match text.trim_start().strip_prefix(QUOTES) {
        Some(rest) => rest.trim_end().ends_with(QUOTES),
        None => !text.ends_with('\\'),
    }
}

/// The message itself: without the quotes, or without the backslashes that continue lines.
pub fn unwrapped(text: &str) -> String {
    match text.trim_start().strip_prefix(QUOTES) {
        Some(rest) => {
            let rest = rest.trim_end();
            rest.strip_suffix(QUOTES).unwrap_or(rest).trim_matches(['\r', '\n']).to_owned()
        }
        None => text.replace("\\\n", "\n").trim_end_matches(['\r', '\n']).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_continue_a_message() {
        for (text, whole, message) in [
            ("hello", true, "hello"),
            ("hello\\", false, "hello\\"),
            ("hello\\\nthere", true, "hello\nthere"),
            ("a\\\nb\\", false, "a\nb\\"),
            ("\"\"\"", false, ""),
            ("\"\"\"one", false, "one"),
            ("\"\"\"one\ntwo\"\"\"", true, "one\ntwo"),
            ("\"\"\"\none\n\n\\\n\"\"\" ", true, "one\n\n\\"),
            ("\"\"\"one\"\"\"", true, "one"),
            ("say \"\"\"x", true, "say \"\"\"x"),
            ("", true, ""),
        ] {
            assert_eq!(is_whole(text), whole, "{text:?}");
            assert_eq!(unwrapped(text), message, "{text:?}");
        }
    }
}
