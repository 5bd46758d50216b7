//! Token ids in a log, and logits by id: `Token ids: [1, 15043]`, `#1: token=485 ("av") logit=8.5582`,
//! `Top 5: [(19762, "5.62"), ...]`, `logits[485] = 8.5582`.

use super::super::printed::Cell;

/// Words after which the ids are of tokens that went in.
const SAYS: [&str; 7] = ["ids", "tokens", "input_ids", "token_ids", "prompt_ids", "prompt_tokens", "input_tokens"];
/// Words that say that they are not.
const OTHER: [&str; 9] = ["generated", "output", "sampled", "next", "top", "candidates", "stop", "special", "expected"];

/// The ids of a line such as `Token ids: [1, 15043]`; not those of tokens that came out.
pub(super) fn prompt(line: &str) -> Option<Vec<u32>> {
    let (label, rest) = line.rsplit_once('[')?;
    let (list, _) = rest.split_once(']')?;
    let label = label.to_lowercase();
    let words = || label.split(|c: char| !c.is_alphanumeric() && c != '_');
    if !words().any(|word| SAYS.contains(&word)) || words().any(|word| OTHER.contains(&word)) {
        return None;
    }
    let ids = list.split([',', ' ']).filter(|word| !word.is_empty()).map(|word| word.parse().ok());
    ids.collect::<Option<Vec<u32>>>().filter(|ids| !ids.is_empty())
}

/// What a line says of single tokens.
#[derive(Debug, PartialEq)]
pub(super) enum ById {
    /// Logits, their columns the ids.
    Logits(Vec<Cell>),
    /// Numbers that may as well be probabilities.
    Probabilities,
}

/// Reads logits by id; with them, where they begin.
pub(super) fn logits(line: &str) -> Option<(usize, ById)> {
    let lower = line.to_ascii_lowercase();
    let says =
        |words: &[&str]| lower.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| words.contains(&word));
    let logit = says(&["logit", "logits"]);
    let (at, cells) = pairs(line).or_else(|| logit.then(|| fields(line).or_else(|| indexed(line)))?)?;
    if !logit && !says(&["top", "tokens", "candidates", "predictions", "top5", "top10", "argmax"]) {
        return None;
    }
    let other = says(&["prob", "probs", "probability", "probabilities", "logprob", "logprobs", "softmax", "p"]);
    // Without the word they may be anything between 0 and 1, or logarithms of that.
    let all = |test: fn(f32) -> bool| cells.iter().all(|cell| test(cell.value));
    if (other || !logit) && (all(|x| (0.0..=1.0).contains(&x)) || all(|x| x <= 0.0)) {
        return Some((at, ById::Probabilities));
    }
    Some((at, ById::Logits(cells)))
}

/// `[(19762, "5.62"), (13, "\n", 4.81)]`: the first of each is the id, the last the logit.
fn pairs(line: &str) -> Option<(usize, Vec<Cell>)> {
    let start = line.find("[(")?;
    let mut rest = &line[start + 1..];
    let mut cells = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        let Some(inner) = rest.strip_prefix('(') else { break };
        let end = closing(inner)?;
        let items = items(&inner[..end]);
        let (id, value) = (items.first()?, items.last()?);
        let id: u32 = id.parse().ok()?;
        (items.len() > 1).then_some(())?;
        cells.push(Cell::parse(&[i64::from(id)], value.trim_matches(['"', '\'']))?);
        rest = &inner[end + 1..];
    }
    (rest.starts_with([']', '.']) && !cells.is_empty()).then_some((start, cells))
}

/// Where a parenthesis closes, those in quotes passed over.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        match quote {
            _ if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == ')' => return Some(at),
            None => {}
        }
        None
    })
}

/// What stands between commas, those in quotes passed over.
fn items(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let (mut quote, mut start, mut escaped) = (None, 0, false);
    for (at, c) in text.char_indices() {
        match quote {
            _ if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == ',' => {
                all.push(text[start..at].trim());
                start = at + 1;
            }
            None => {}
        }
    }
    all.push(text[start..].trim());
    all
}

/// `token=485 ("av") logit=8.5582`: a field that is the id, and one that is the logit.
fn fields(line: &str) -> Option<(usize, Vec<Cell>)> {
    let plain = unquoted(line);
    let words: Vec<&str> =
        plain.split(|c: char| c.is_whitespace() || "=:,()[]{}>".contains(c)).filter(|word| !word.is_empty()).collect();
    let after = |names: &[&str]| {
        let at = words.iter().position(|word| names.contains(&word.to_ascii_lowercase().as_str()))?;
        // `token id 485` and `token 485`.
        words[at + 1..].iter().take(2).find(|word| !matches!(word.to_ascii_lowercase().as_str(), "id" | "value"))
    };
    let id: u32 = after(&["token", "token_id", "tok", "id", "tid"])?.parse().ok()?;
    let value = after(&["logit", "logits"])?;
    let at = line.to_ascii_lowercase().find("tok").or_else(|| line.to_ascii_lowercase().find("id"))?;
    Some((at, vec![Cell::parse(&[i64::from(id)], value).filter(|_| value.contains('.'))?]))
}

/// A line without what is in quotes.
fn unquoted(line: &str) -> String {
    let mut plain = String::new();
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None => plain.push(c),
        }
    }
    plain
}

/// `logits[485] = 8.5582`.
fn indexed(line: &str) -> Option<(usize, Vec<Cell>)> {
    let start = line.to_ascii_lowercase().find("logit")?;
    let open = start + line[start..].find('[')?;
    let end = open + line[open..].find(']')?;
    let id: u32 = line[open + 1..end].trim().parse().ok()?;
    let rest = line[end + 1..].trim_start_matches(['=', ':', ' ', '-', '>']);
    let minus = line[end + 1..].contains("= -") || line[end + 1..].contains(": -");
    let word = rest.split([' ', ',', ';']).next()?;
    let word = if minus { format!("-{word}") } else { word.to_owned() };
    Some((start, vec![Cell::parse(&[i64::from(id)], &word)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_went_in_are_known_from_those_that_came_out() {
        for (line, expected) in [
            ("Token ids: [1, 279, 264]", Some(vec![1, 279, 264])),
            ("[DEBUG] input_ids = [[1 279]]", Some(vec![1, 279])),
            ("input_ids = [1 279]", Some(vec![1, 279])),
            ("Generated tokens: [5, 6]", None),
            ("tokens: [0.5, 1]", None),
            ("Qcur-0: [1, 2]", None),
            ("tokens: []", None),
        ] {
            assert_eq!(prompt(line), expected, "{line}");
        }
    }

    #[test]
    fn logits_by_id_read() {
        for (line, expected) in [
            ("#1: token=485 (\"av\") logit=8.5582", vec![(485, 8.5582)]),
            ("  token id 13 ('\\n'): logit: -2.25", vec![(13, -2.25)]),
            ("Top 5: [(19762, \"5.62\"), (13, \"4.81\")]", vec![(19762, 5.62), (13, 4.81)]),
            ("top tokens: [(29892, ',', 10.82), (2, ')', 1.5)]", vec![(29892, 10.82), (2, 1.5)]),
            ("logits[485] = -8.5", vec![(485, -8.5)]),
            ("logit[7]: 8.5", vec![(7, 8.5)]),
        ] {
            let Some((_, ById::Logits(cells))) = logits(line) else { panic!("{line}") };
            assert_eq!(cells.iter().map(|cell| (cell.at[0], cell.value)).collect::<Vec<_>>(), expected, "{line}");
        }
        for line in [
            "Top 5: [(19762, 0.62), (13, 0.11)]",
            "top tokens: [(5, -0.2), (6, -1.5)]",
            "Top 2 probs (logits): [(5, 0.2), (6, 0.1)]",
        ] {
            assert!(matches!(logits(line), Some((_, ById::Probabilities))), "{line}");
        }
        for line in
            ["token=485 (\"av\")", "shapes: [(1, 64), (2, 64)]", "Top 5: [(a, 1.5)]", "logits[0..5] = [1.5]", "logit"]
        {
            assert_eq!(logits(line), None, "{line}");
        }
    }
}
