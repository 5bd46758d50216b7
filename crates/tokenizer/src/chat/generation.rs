//! `{% generation %}` ... `{% endgeneration %}`, with which Hugging Face marks what a model is trained to say. For a
//! prompt only the contents count, so the tags become `{% with %}` and `{% endwith %}`, which do nothing but limit the
//! reach of `set`, as the original's do. This is not a Jinja parser: it finds tags, and keeps lines where they are.

/// The template with the tags replaced.
pub(super) fn without_tags(source: &str) -> String {
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
        match tag_name(tag_text) {
            Some("generation") if !raw => out.push_str(&tag_text.replacen("generation", "with", 1)),
            Some("endgeneration") if !raw => out.push_str(&tag_text.replacen("endgeneration", "endwith", 1)),
            _ => out.push_str(tag_text),
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
            assert_eq!(without_tags(source), expected);
        }
    }
}
