//! The words of a tag: names, numbers, strings and signs with their brackets' depth. It knows nothing of what they mean,
//! except which of them end a sum's term.

/// A word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'t> {
    pub text: &'t str,
    /// Byte offset.
    pub at: usize,
    /// How many brackets are open before it.
    pub depth: usize,
}

/// The words of `text`, without white space.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    let mut depth: usize = 0;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let len = match c {
            _ if c.is_whitespace() => c.len_utf8(),
            '"' | '\'' => string(rest, c),
            _ if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            _ => ["==", "!=", "<=", ">=", "**", "//"]
                .iter()
                .find(|sign| rest.starts_with(**sign))
                .map_or(c.len_utf8(), |s| s.len()),
        };
        if matches!(c, ')' | ']' | '}') {
            depth = depth.saturating_sub(1);
        }
        if !c.is_whitespace() {
            all.push(Token { text: &rest[..len], at, depth });
        }
        if matches!(c, '(' | '[' | '{') {
            depth += 1;
        }
        at += len;
    }
    all
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Bytes of the string that `text` begins with.
fn string(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Names and signs between which a sum stands alone.
const BREAKS: [&str; 18] =
    ["if", "else", "elif", "and", "or", "not", "in", "set", "for", "print", ",", ":", "=", "==", "!=", "<", ">", "<="];

/// The text with every group of terms that have `+` between them, in brackets too, replaced by what `join` makes of them. A
/// group with a binary `-` is left as it is.
pub(super) fn in_groups(text: &str, join: &dyn Fn(&[String]) -> String) -> String {
    let all = tokens(text);
    let (mut out, mut terms, mut term) = (String::new(), Vec::new(), String::new());
    let mut difference = false;
    let flush = |terms: &mut Vec<String>, term: &mut String, difference: &mut bool, out: &mut String| {
        terms.push(std::mem::take(term));
        out.push_str(&if *difference { terms.join("+") } else { join(terms) });
        terms.clear();
        *difference = false;
    };
    let mut done = 0;
    for (n, token) in all.iter().enumerate().filter(|(_, token)| token.depth == 0) {
        if token.at < done {
            continue;
        }
        term.push_str(&text[done..token.at]);
        done = token.at + token.text.len();
        let binary = !term.trim().is_empty();
        let after_is = n > 0 && all[n - 1].text == "is";
        match token.text {
            "(" | "[" | "{" => {
                let end = all[n + 1..].iter().find(|close| close.depth == 0).map_or(text.len(), |close| close.at);
                term.push_str(token.text);
                term.push_str(&in_groups(&text[done..end], join));
                done = end;
            }
            "+" if binary => terms.push(std::mem::take(&mut term)),
            word if (BREAKS.contains(&word) || word == ">=") && !after_is => {
                flush(&mut terms, &mut term, &mut difference, &mut out);
                out.push_str(word);
            }
            word => {
                difference |= word == "-" && binary;
                term.push_str(word);
            }
        }
    }
    term.push_str(&text[done..]);
    flush(&mut terms, &mut term, &mut difference, &mut out);
    out
}
