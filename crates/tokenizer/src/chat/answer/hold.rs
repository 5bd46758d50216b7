//! Finding marks in a text that grows: the first one, and how much of its end may become one.

/// Where the first of the marks is; of two at the same place the longer.
pub(super) fn split_at_first<'m>(text: &str, marks: &[&'m str]) -> Option<(usize, &'m str)> {
    let found = marks.iter().filter_map(|mark| Some((text.find(mark)?, *mark)));
    found.min_by_key(|(at, mark)| (*at, std::cmp::Reverse(mark.len())))
}

/// How many bytes at the end may be the beginning of a mark.
pub(super) fn held_back(text: &str, marks: &[&str]) -> usize {
    let longest = |mark: &&str| {
        let lengths = (1..mark.len()).rev().filter(|len| mark.is_char_boundary(*len));
        lengths.into_iter().find(|len| text.ends_with(&mark[..*len])).unwrap_or(0)
    };
    marks.iter().map(longest).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_marks_are_held() {
        for (text, expected) in
            [("a<", 1), ("a</thi", 5), ("a</think>", 0), ("<t</", 2), ("", 0), ("a<｜", 4), ("a<｜x", 0)]
        {
            assert_eq!(held_back(text, &["</think>", "<｜tool"]), expected, "{text}");
        }
        assert_eq!(split_at_first("a<b><bc>", &["<bc>", "<b>"]), Some((1, "<b>")));
        assert_eq!(split_at_first("ab", &["x"]), None);
    }
}
