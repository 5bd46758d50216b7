//! `str.strip` and its kin, and what Python takes for white space.

/// Which ends of a text lose something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Left,
    Right,
    Both,
}

/// `str.strip` and its kin.
pub(super) fn stripped<'t>(text: &'t str, chars: Option<&str>, ends: Ends) -> &'t str {
    let goes = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if ends == Ends::Right { text } else { text.trim_start_matches(goes) };
    if ends == Ends::Left { text } else { text.trim_end_matches(goes) }
}

/// `str.isspace`: Unicode's white space and four separators of ASCII.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}
