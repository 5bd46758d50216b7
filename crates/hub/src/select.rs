//! Which files of a repository a name means, by llama.cpp's rules.

use crate::name::Part;

/// Formats that are meant where none is named, the first that is there.
const USUAL: [&str; 2] = ["Q4_K_M", "Q8_0"];

/// Words in the names of GGUF files that are no models of their own.
const OTHERS: [&str; 6] = ["mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-"];

/// One of several files of a model: `PREFIX-00001-of-00003.gguf`.
struct Split<'a> {
    prefix: &'a str,
    index: u32,
    count: u32,
}

/// The files that are meant of those at these paths: the model's, in order. `None` if there is no such model.
pub fn model<'a>(paths: &[&'a str], part: &Part) -> Option<Vec<&'a str>> {
    let mut sorted = paths.to_vec();
    sorted.sort_unstable();
    let begins = |path: &&&str| is_model(path) && split(path).is_none_or(|split| split.index == 1);
    let first = match part {
        Part::File(file) => sorted.iter().find(|path| *path == file),
        Part::Quant(quant) => sorted.iter().filter(begins).find(|path| is_of(path, quant)),
        Part::Usual => {
            let of = |quant: &&str| sorted.iter().filter(begins).find(|path| is_of(path, quant));
            USUAL.iter().find_map(of).or_else(|| sorted.iter().find(begins))
        }
    }?;
    let Some(Split { prefix, count, .. }) = split(first) else { return Some(vec![first]) };
    let parts: Vec<&str> = sorted
        .iter()
        .filter(|path| split(path).is_some_and(|other| (other.prefix, other.count) == (prefix, count)))
        .copied()
        .collect();
    // One that is missing would be found only when the model is opened.
    (parts.len() == count as usize).then_some(parts)
}

/// What reads images for a model: of those nearest to it in folders the one nearest in bits.
pub fn projector<'a>(paths: &[&'a str], model: &str) -> Option<&'a str> {
    let folder = |path: &str| {
        path.rsplit_once('/').map_or(Vec::new(), |(folder, _)| folder.split('/').map(str::to_owned).collect())
    };
    let of_model: Vec<String> = folder(model);
    let mut sorted = paths.to_vec();
    sorted.sort_unstable();
    let found = sorted.into_iter().filter(|path| {
        is_gguf(path) && path.contains("mmproj") && of_model.starts_with(&folder(path)) && *path != model
    });
    found.min_by_key(|path| (std::cmp::Reverse(folder(path).len()), bits(path).abs_diff(bits(model))))
}

/// Whether a model that is there is what would be fetched for this choice, whatever else its repository has.
pub fn is_certain(path: &str, part: &Part) -> bool {
    !matches!(part, Part::Usual) || is_of(path, USUAL[0])
}

/// The format that the name of a model file ends with: `Q4_K_M` of `a-Q4_K_M.gguf`.
pub fn quant(path: &str) -> Option<String> {
    let stem = split(path).map_or_else(|| path.strip_suffix(".gguf"), |split| Some(split.prefix))?;
    let (_, word) = stem.rsplit_once(['-', '.'])?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (word.bytes().all(plain) && word.bytes().any(|byte| byte.is_ascii_digit())).then(|| word.to_uppercase())
}

/// Whether a file is that of a model, or one of its parts.
pub fn is_model(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    is_gguf(path) && !OTHERS.iter().any(|other| name.contains(other))
}

/// Whether a file is the first one of a model, or all of it.
pub fn is_first(path: &str) -> bool {
    is_model(path) && split(path).is_none_or(|split| split.index == 1)
}

fn is_gguf(path: &str) -> bool {
    path.ends_with(".gguf")
}

fn is_of(path: &str, quant: &str) -> bool {
    let (path, quant) = (path.to_uppercase(), quant.to_uppercase());
    // F16 is not meant by BF16, nor Q4_XS by IQ4_XS.
    let begins = |at: usize| !path[..at].ends_with(|letter: char| letter.is_alphanumeric());
    path.match_indices(&quant).any(|(at, _)| begins(at) && path[at + quant.len()..].starts_with(['.', '-']))
}

fn bits(path: &str) -> u32 {
    let digits = quant(path).unwrap_or_default();
    let digits = digits.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

fn split(path: &str) -> Option<Split<'_>> {
    let stem = path.strip_suffix(".gguf")?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (prefix, index) = rest.rsplit_once('-')?;
    let number = |digits: &str| (digits.len() == 5).then(|| digits.parse().ok()).flatten();
    Some(Split { prefix, index: number(index)?, count: number(count)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 9] = [
        "m-Q8_0.gguf",
        "m-Q4_K_M.gguf",
        "m-Q4_K_S.gguf",
        "README.md",
        "mmproj-m-F16.gguf",
        "mmproj-m-Q8_0.gguf",
        "big/m-BF16-00002-of-00002.gguf",
        "big/m-BF16-00001-of-00002.gguf",
        "imatrix.gguf",
    ];

    #[test]
    fn a_quant_means_a_file_or_all_of_its_parts() {
        let quant = |quant: &str| model(&FILES, &Part::Quant(quant.to_owned()));
        assert_eq!(model(&FILES, &Part::Usual), Some(vec!["m-Q4_K_M.gguf"]));
        assert_eq!(quant("q8_0"), Some(vec!["m-Q8_0.gguf"]));
        assert_eq!(quant("BF16"), Some(vec!["big/m-BF16-00001-of-00002.gguf", "big/m-BF16-00002-of-00002.gguf"]));
        assert_eq!(quant("Q4_K"), None);
        assert_eq!(quant("F16"), None);
        assert_eq!(model(&FILES, &Part::File("imatrix.gguf".to_owned())), Some(vec!["imatrix.gguf"]));
        assert_eq!(model(&FILES[..1], &Part::Usual), Some(vec!["m-Q8_0.gguf"]));
        assert_eq!(model(&["b-F32.gguf", "a-Q2_K.gguf"], &Part::Usual), Some(vec!["a-Q2_K.gguf"]));
        assert_eq!(model(&FILES[7..], &Part::Usual), None, "a part is missing");
    }

    #[test]
    fn a_projector_lies_beside_its_model() {
        assert_eq!(projector(&FILES, "m-Q8_0.gguf"), Some("mmproj-m-Q8_0.gguf"));
        assert_eq!(projector(&FILES, "big/m-BF16-00001-of-00002.gguf"), Some("mmproj-m-F16.gguf"));
        assert_eq!(projector(&["a/mmproj.gguf", "b/m.gguf"], "b/m.gguf"), None);
    }

    #[test]
    fn quants_end_names() {
        for (path, expected) in [
            ("a/m-Q4_K_M.gguf", Some("Q4_K_M")),
            ("m.iq2_xxs.gguf", Some("IQ2_XXS")),
            ("m-BF16-00001-of-00002.gguf", Some("BF16")),
            ("model.gguf", None),
            ("m-instruct.gguf", None),
        ] {
            assert_eq!(quant(path).as_deref(), expected, "{path}");
        }
        assert!(is_certain("m-Q4_K_M.gguf", &Part::Usual) && !is_certain("m-Q8_0.gguf", &Part::Usual));
    }
}
