//! Rewriting the tags of a template before the engine reads it, where Jinja2 does what the engine cannot be taught
//! otherwise. This is not a Jinja parser: it finds tags, knows strings and brackets in them, and keeps lines where they are.
//!
//! - `{% generation %}` ... `{% endgeneration %}`, with which Hugging Face marks what a model is trained to say, become
//!   `{% with %}` ... `{% endwith %}`, which do nothing but limit the reach of `set`, as the original's do.
//! - What a `for` runs over goes through the filter [`LOOP`], which refuses nothing at all (None) as Python does.
//! - `a[b:c:d]` becomes the method [`SLICE`]: the engine panics on an empty list from its end.
//! - In a template that marks text as HTML (`safe`, `escape`), `a + b` becomes the filter [`PLUS`]: Python's sum of HTML
//!   and text escapes the text.

use super::tokens::{Token, in_groups, tokens};

/// The filter around what a loop runs over.
pub(super) const LOOP: &str = "candor_loop";
/// The filter that adds, where HTML may be added.
pub(super) const PLUS: &str = "candor_plus";

/// The method that takes every n-th of a range.
pub(super) const SLICE: &str = "candor_slice";

/// Filters whose result is HTML.
const HTML: [&str; 4] = ["safe", "e", "escape", "forceescape"];

/// The template as the engine shall read it.
pub(super) fn rewritten(source: &str) -> String {
    let html = std::cell::Cell::new(false);
    let look = |tag: &str| {
        let words = inside(tag).map(|(_, words, _)| tokens(words)).unwrap_or_default();
        let marks = words.windows(2).any(|pair| pair[0].text == "|" && HTML.contains(&pair[1].text));
        html.set(html.get() | marks);
        tag.to_owned()
    };
    each_tag(source, look);
    each_tag(source, |tag| rewritten_tag(tag, html.get()))
}

fn rewritten_tag(tag: &str, html: bool) -> String {
    let Some((open, words, close)) = inside(tag) else { return tag.to_owned() };
    let words = match tag_name(tag) {
        Some("generation") => words.replacen("generation", "with", 1),
        Some("endgeneration") => words.replacen("endgeneration", "endwith", 1),
        Some("for") => looped(words),
        _ => words.to_owned(),
    };
    let words = sliced(&words);
    let words = if html { summed(&words) } else { words };
    format!("{open}{words}{close}")
}

/// The opening, the words and the end of a tag that has words: a statement or an expression.
fn inside(tag: &str) -> Option<(&str, &str, &str)> {
    if !(tag.starts_with("{%") || tag.starts_with("{{")) || tag.len() < 4 {
        return None;
    }
    let is_sign = |at: usize| matches!(tag.as_bytes()[at], b'-' | b'+');
    let start = if is_sign(2) { 3 } else { 2 };
    let end = if tag.len() > 4 && is_sign(tag.len() - 3) { tag.len() - 3 } else { tag.len() - 2 };
    (start <= end).then(|| (&tag[..start], &tag[start..end], &tag[end..]))
}

/// `for x in A if B` with [`LOOP`] around A.
fn looped(words: &str) -> String {
    let all = tokens(words);
    let outer = |token: &Token<'_>, name: &str| token.depth == 0 && token.text == name;
    let Some(from) = all.iter().find(|token| outer(token, "in")) else { return words.to_owned() };
    let end = all.iter().find(|token| token.at > from.at && (outer(token, "if") || outer(token, "recursive")));
    let (start, end) = (from.at + from.text.len(), end.map_or(words.len(), |token| token.at));
    format!("{} ({})|{LOOP} {}", &words[..start], &words[start..end], &words[end..])
}

/// The words with every slice that has a step as [`SLICE`].
fn sliced(words: &str) -> String {
    let all = tokens(words);
    for (n, open) in all.iter().enumerate().filter(|(_, token)| token.text == "[") {
        let Some(close) = all[n + 1..].iter().find(|token| token.depth == open.depth) else { continue };
        let colons = all[n + 1..].iter().take_while(|token| token.at < close.at);
        let colons: Vec<usize> =
            colons.filter(|token| token.depth == open.depth + 1 && token.text == ":").map(|token| token.at).collect();
        let [first, second] = colons[..] else { continue };
        let part = |from: usize, to: usize| match words[from + 1..to].trim() {
            "" => "none".to_owned(),
            part => sliced(part),
        };
        let (start, stop, step) = (part(open.at, first), part(first, second), part(second, close.at));
        let (before, after) = (&words[..open.at], sliced(&words[close.at + 1..]));
        return format!("{before}.{SLICE}({start}, {stop}, {step}){after}");
    }
    words.to_owned()
}

/// The words with every sum as [`PLUS`].
fn summed(words: &str) -> String {
    in_groups(words, &|terms: &[String]| match terms {
        [first, others @ ..] if !others.is_empty() => {
            let others: String = others.iter().map(|term| format!("|{PLUS}({term})")).collect();
            format!("({first}){others}")
        }
        _ => terms.concat(),
    })
}

/// The template with every tag replaced by what `replace` makes of it.
fn each_tag(source: &str, replace: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut raw = false;
    while let Some(at) = rest.find('{') {
        let (text, tag) = rest.split_at(at);
        out.push_str(text);
        let end = match tag.as_bytes().get(1) {
            Some(b'#') if !raw => tag.find("#}").map(|end| end + 2),
            Some(b'{') if !raw => end_of_tag(tag, "}}"),
            Some(b'%') => end_of_tag(tag, "%}"),
            _ => Some(1),
        };
        let Some(end) = end else {
            rest = tag;
            break;
        };
        let tag_text = &tag[..end];
        match tag_name(tag_text) {
            Some("raw") => raw = true,
            Some("endraw") => raw = false,
            _ => {}
        }
        if raw {
            out.push_str(tag_text)
        } else {
            out.push_str(&replace(tag_text))
        }
        rest = &tag[end..];
    }
    out.push_str(rest);
    out
}

/// The first word of a `{% ... %}`.
fn tag_name(tag: &str) -> Option<&str> {
    let inside = tag.strip_prefix("{%")?.trim_start_matches(['-', '+']).trim_start();
    let end = inside.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inside.len());
    Some(&inside[..end])
}

/// Where the tag at the start of `tag` ends, after `close`, which does not count inside quotes.
fn end_of_tag(tag: &str, close: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in tag.char_indices().skip(2) {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if tag[at..].starts_with(close) => return Some(at + close.len()),
            None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tags_change() {
        let cases = [
            ("a{% generation %}b{% endgeneration %}c", "a{% with %}b{% endwith %}c"),
            ("{%- generation -%}\nx{%+endgeneration+%}", "{%- with -%}\nx{%+endwith+%}"),
            ("{# {% generation %} #}{{ '{% generation %}' }}", "{# {% generation %} #}{{ '{% generation %}' }}"),
            ("{% set x = '%} {% generation %}' %}", "{% set x = '%} {% generation %}' %}"),
            (
                "{% raw %}{% generation %}{% endraw %}{% generation %}",
                "{% raw %}{% generation %}{% endraw %}{% with %}",
            ),
            ("{% set generation = 1 %}{% generations %}{", "{% set generation = 1 %}{% generations %}{"),
            ("{% generation", "{% generation"),
        ];
        for (source, expected) in cases {
            assert_eq!(rewritten(source), expected);
        }
    }

    #[test]
    fn loops_and_sums() {
        let cases = [
            ("{% for x in xs %}", "{% for x in ( xs )|candor_loop %}"),
            ("{%- for a, b in m['in'].items() if a -%}", "{%- for a, b in ( m['in'].items() )|candor_loop if a -%}"),
            ("{% for x in [1, (2)] recursive %}", "{% for x in ( [1, (2)] )|candor_loop recursive %}"),
            ("{{ a + b }}", "{{ a + b }}"),
            ("{{ m[::-1][0] }}", "{{ m.candor_slice(none, none, -1)[0] }}"),
            (
                "{{ f(m[x[0::2][0]:-1:n])[1:] + [{'a': 1}] }}",
                "{{ f(m.candor_slice(x.candor_slice(0, none, 2)[0], -1, n))[1:] + [{'a': 1}] }}",
            ),
            (
                "{{ 'x'|safe + b + f(c + 1) }}",
                "{{( 'x'|safe )|candor_plus( b )|candor_plus( f((c )|candor_plus( 1)) )}}",
            ),
            ("{{ a|e if b + 1 else c is not none }}", "{{ a|e if( b )|candor_plus( 1 )else c is not none }}"),
            (
                "{{ a|e }}{% set x = {'k': a + '+'}[b - 1] %}",
                "{{ a|e }}{% set x = {'k':( a )|candor_plus( '+')}[b - 1] %}",
            ),
        ];
        for (source, expected) in cases {
            assert_eq!(rewritten(source), expected);
        }
    }
}
