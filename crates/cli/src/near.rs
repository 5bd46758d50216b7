//! Which of some names is meant by a mistyped one.

use strsim::damerau_levenshtein;

/// The name nearest to `typed`, if one is near enough to be meant: a third of its letters may be wrong, or its end
/// missing.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let distance = |name: &str| match name.to_lowercase() {
        name if typed.len() >= 2 && name.starts_with(&typed) => 1,
        name => damerau_levenshtein(&typed, &name),
    };
    let near = names.into_iter().map(|name| (distance(name), name)).min_by_key(|&(distance, _)| distance);
    near.filter(|&(distance, _)| distance <= (typed.chars().count() / 3).max(1)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_found_if_near_enough() {
        let names = ["temp", "top-k", "top-p", "typical", "stories.gguf"];
        for (typed, expected) in [
            ("tmep", Some("temp")),
            ("tempp", Some("temp")),
            ("Top-K", Some("top-k")),
            ("typ", Some("typical")),
            ("storise.gguf", Some("stories.gguf")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, names), expected, "{typed}");
        }
    }
}
