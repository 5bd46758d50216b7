//! Which of some names is meant by a mistyped one.

use strsim::damerau_levenshtein;

/// The name nearest to `typed`, if one is near enough to be meant: a third of its letters may be wrong, or its end
/// missing. Not all of them: no letter is near another.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    all_nearest(typed, names).into_iter().next()
}

/// All names that are equally near.
pub fn all_nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = typed.to_lowercase();
    let distance = |name: &str| match name.to_lowercase() {
        name if typed.len() >= 2 && name.starts_with(&typed) => 1,
        name => damerau_levenshtein(&typed, &name),
    };
    let near: Vec<_> = names.into_iter().map(|name| (distance(name), name)).collect();
    let least = near.iter().map(|&(distance, _)| distance).min().unwrap_or(usize::MAX);
    let letters = typed.chars().count();
    if least > (letters / 3).max(1) || least >= letters {
        return Vec::new();
    }
    near.into_iter().filter(|&(distance, _)| distance == least).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_found_if_near_enough() {
        let names = ["temp", "top-k", "top-p", "typical", "stories.gguf", "o"];
        for (typed, expected) in [
            ("tmep", Some("temp")),
            ("tempp", Some("temp")),
            ("Top-K", Some("top-k")),
            ("typ", Some("typical")),
            ("storise.gguf", Some("stories.gguf")),
            ("xyz", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, names), expected, "{typed}");
        }
        assert_eq!(all_nearest("top-q", names), ["top-k", "top-p"]);
    }
}
