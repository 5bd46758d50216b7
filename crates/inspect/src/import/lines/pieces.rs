//! A log cut into pieces: a line, or several that one printed array or one heading holds together.

use super::super::printed::Printed;

/// Lines that are put into one.
const MAX_JOINED: usize = 1 << 14;

/// Lines that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Piece {
    /// The first line, counted from 1.
    pub(super) line: usize,
    pub(super) text: String,
    /// The shape that is said after the numbers, as candle and burn do.
    pub(super) shape: Option<Vec<usize>>,
}

/// What is still open at the end of a line.
struct Open {
    piece: Piece,
    depth: i64,
    lines: usize,
}

/// Cuts a text into pieces. Empty lines are left out.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let mut all: Vec<Piece> = Vec::new();
    let mut open: Option<Open> = None;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        let goes_on = match &open {
            Some(open) if open.depth > 0 => is_of_array(trimmed) && open.lines < MAX_JOINED,
            // A name and a colon alone announce numbers on the next line.
            Some(_) => opens_array(trimmed),
            None => false,
        };
        let mut now = match open.take() {
            Some(mut before) if goes_on => {
                before.piece.text.push(' ');
                before.piece.text.push_str(trimmed);
                before.depth += depth(trimmed);
                before.lines += 1;
                before
            }
            Some(before) if before.depth <= 0 && (trimmed.is_empty() || trimmed == "data:") => {
                open = Some(before);
                continue;
            }
            before => {
                all.extend(before.map(|before| before.piece));
                if let (Some(shape), Some(last)) = (said_shape(trimmed), all.last_mut())
                    && last.text.ends_with([']', ','])
                {
                    last.shape = Some(shape);
                    continue;
                }
                if trimmed.is_empty() {
                    continue;
                }
                let piece = Piece { line: index + 1, text: line.trim_end().to_owned(), shape: None };
                Open { piece, depth: open_array(line), lines: 1 }
            }
        };
        let announces = now.lines == 1 && (trimmed.ends_with([':', '=']) || trimmed.ends_with("Tensor {"));
        if now.depth > 0 || announces {
            now.depth = now.depth.max(0);
            open = Some(now);
        } else {
            all.push(now.piece);
        }
    }
    all.extend(open.map(|open| open.piece));
    all
}

/// Brackets that a line opens beyond those that it closes.
fn depth(line: &str) -> i64 {
    line.chars().map(|c| i64::from(c == '[') - i64::from(c == ']')).sum()
}

/// Brackets that a line leaves open behind its last words, where only numbers follow them.
fn open_array(line: &str) -> i64 {
    let depth = depth(line);
    let starts = line.match_indices('[').map(|(at, _)| at);
    let opens = |at: usize| is_of_array(&line[at..]) && self::depth(&line[at..]) == depth;
    if depth > 0 && starts.take(MAX_STARTS).any(opens) { depth } else { 0 }
}

/// Brackets of a line that are looked at.
const MAX_STARTS: usize = 16;

/// Whether a line can be the inside of a printed array, up to its last bracket.
fn is_of_array(line: &str) -> bool {
    let inside = line.rfind(']').map_or(line, |end| &line[..end]);
    let number = |c: char| c.is_ascii_digit() || c.is_whitespace() || "[](),.+-eEnaifNIF".contains(c);
    !line.is_empty() && inside.chars().all(number)
}

/// Whether a line begins with numbers.
fn opens_array(line: &str) -> bool {
    let start = ["tensor(", "array(", "Array(", "Tensor("].iter().find_map(|name| line.strip_prefix(name));
    let line = start.unwrap_or(line);
    let word = line.split([',', ' ']).next().unwrap_or_default();
    line.starts_with('[') || word.parse::<f32>().is_ok()
}

/// `Tensor[[1, 5, 64], f32]` of candle and `shape:  [1, 5, 64],` of burn.
fn said_shape(line: &str) -> Option<Vec<usize>> {
    let rest = line.strip_prefix("Tensor[").or_else(|| line.strip_prefix("shape:"))?.trim_start();
    let rest = rest.strip_prefix("dims ").map_or(rest, |dims| dims);
    let end = rest.find([']', ';'])?;
    shape(rest[..end].trim_start_matches('['))
}

/// Sizes with commas between them.
pub(super) fn shape(text: &str) -> Option<Vec<usize>> {
    let dims: Option<Vec<usize>> = text.split(',').map(|dim| dim.trim().parse().ok()).collect();
    dims.filter(|dims| !dims.is_empty())
}

/// The printed arrays of a text, those that are in no other one, with the text before each since the last.
pub(super) fn arrays(text: &str) -> Vec<(&str, Printed)> {
    let mut found = Vec::new();
    let (mut start, mut depth, mut label) = (0, 0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' => {
                start = if depth == 0 { at } else { start };
                depth += 1;
            }
            ']' if depth == 1 => {
                depth = 0;
                if let Some(printed) = Printed::parse(&text[start..=at]).filter(|printed| printed.cells.len() > 1) {
                    found.push((&text[label..start], printed));
                    label = at + 1;
                }
            }
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(usize, String)> {
        pieces(text).into_iter().map(|piece| (piece.line, piece.text)).collect()
    }

    #[test]
    fn brackets_go_on_and_headings_announce() {
        let text = "Qcur-0:\n[0.1,\n 0.2]\n\nKcur-0 = [1.5,\n2.5]\nnext [of\nkin";
        let expected = [(1, "Qcur-0: [0.1, 0.2]"), (5, "Kcur-0 = [1.5, 2.5]"), (7, "next [of"), (8, "kin")];
        assert_eq!(texts(text), expected.map(|(line, text)| (line, text.to_owned())));
        // An array that is cut off does not swallow what follows.
        let cut = texts("x = [0.1, 0.2\nA line of prose\ny = [0.5, 0.25]");
        assert_eq!(cut.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn shapes_follow_the_numbers_of_candle_and_burn() {
        for text in [
            "q: [[0.1, 0.2],\n [0.3, 0.4]]\nTensor[[2, 2], f32]\nafter",
            "q: Tensor {\n  data:\n[[0.1, 0.2], [0.3, 0.4]],\n  shape:  [2, 2],\nafter",
        ] {
            let pieces = pieces(text);
            assert_eq!((pieces.len(), pieces[0].shape.clone()), (2, Some(vec![2, 2])), "{pieces:?}");
            assert_eq!(arrays(&pieces[0].text)[0].1.cells.len(), 4);
        }
    }

    #[test]
    fn arrays_stand_beside_each_other() {
        let found = arrays("[DEBUG] q=[0.1, 0.2] k=[[0.3, 0.4]] at [0]");
        assert_eq!(found.iter().map(|(label, _)| *label).collect::<Vec<_>>(), ["[DEBUG] q=", " k="]);
    }
}
