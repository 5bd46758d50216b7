//! Values as JSON: a record a line, `{"layer": 0, "name": "attn_norm", "values": [...]}`, or a file of them.

use serde_json::{Map, Value};

use super::{
    super::{
        caps,
        printed::{Cell, Printed},
    },
    label::{Label, Row},
};

/// Fields that name the value.
const NAMES: [&str; 9] = ["name", "tensor", "op", "key", "label", "node", "stage", "value_name", "module"];
/// Fields with its numbers.
const NUMBERS: [&str; 11] =
    ["values", "data", "value", "first", "sample", "output", "hidden", "head", "slice", "elements", "first_values"];
/// Fields with its shape; the last is in ggml's order, the innermost first.
const SHAPES: [&str; 4] = ["shape", "dims", "size", "ne"];
const LAYERS: [&str; 5] = ["layer", "layer_idx", "il", "block", "layer_index"];
const POSITIONS: [&str; 6] = ["pos", "position", "token_index", "row", "token_pos", "token_idx"];
const TOKENS: [&str; 5] = ["tokens", "input_ids", "token_ids", "prompt_ids", "ids"];

/// What a record is.
#[derive(Debug, PartialEq)]
pub(super) enum Record {
    /// Numbers with their name.
    Numbers(String, Box<Named>),
    /// The ids of the tokens that went in.
    Tokens(Vec<u32>),
}

/// Numbers, and where they belong.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Named {
    pub(super) layer: Option<usize>,
    pub(super) position: Option<usize>,
    pub(super) printed: Printed,
}

impl Named {
    /// The label that a line with the same would have.
    pub(super) fn label(&self, name: &str) -> Option<Label> {
        let mut label = Label::of(name)?;
        label.layer = self.layer.or(label.layer);
        label.row = self.position.map_or(label.row, Row::At);
        Some(label)
    }
}

/// The records of a text that is JSON as a whole.
pub(super) fn of_file(text: &str) -> Option<Vec<Record>> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) || text.len() as u64 > caps::MAX_JSON {
        return None;
    }
    let all = match serde_json::from_str(text).ok()? {
        Value::Array(all) => all.iter().filter_map(Value::as_object).flat_map(records).collect(),
        Value::Object(object) => records(&object),
        _ => Vec::new(),
    };
    (!all.is_empty()).then_some(all)
}

/// The records of a line that is a JSON object.
pub(super) fn of_line(line: &str) -> Vec<Record> {
    let Some(object) = line.find('{').filter(|start| line[..*start].len() < 40).map(|start| &line[start..]) else {
        return Vec::new();
    };
    match serde_json::from_str(object) {
        Ok(Value::Object(object)) => records(&object),
        _ => Vec::new(),
    }
}

fn records(object: &Map<String, Value>) -> Vec<Record> {
    let field = |names: &[&str]| names.iter().find_map(|name| object.get(*name));
    let number = |names: &[&str]| field(names).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    let ids = TOKENS.iter().find_map(|name| object.get(*name)).and_then(ids).map(Record::Tokens);
    let mut all: Vec<Record> = ids.into_iter().collect();
    let (layer, position) = (number(&LAYERS), number(&POSITIONS));
    let named = |printed| Named { layer, position, printed };
    if let (Some(name), Some(numbers)) = (field(&NAMES).and_then(Value::as_str), field(&NUMBERS)) {
        let printed = printed(numbers, shape(object).as_deref());
        all.extend(printed.map(|printed| Record::Numbers(name.to_owned(), Box::new(named(printed)))));
        return all;
    }
    // Without a name each list is named by its field.
    let lists = object.iter().filter(|(name, _)| !SHAPES.contains(&name.as_str()) && !TOKENS.contains(&name.as_str()));
    all.extend(lists.filter_map(|(name, value)| {
        let printed = printed(value, None)?;
        Some(Record::Numbers(name.clone(), Box::new(named(printed))))
    }));
    all
}

fn ids(value: &Value) -> Option<Vec<u32>> {
    let list = value.as_array()?;
    let list = match list.first()? {
        Value::Array(inner) if list.len() == 1 => inner,
        _ => list,
    };
    list.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect()
}

fn shape(object: &Map<String, Value>) -> Option<Vec<usize>> {
    let (name, shape) = SHAPES.iter().find_map(|name| Some((*name, object.get(*name)?.as_array()?)))?;
    let mut shape: Vec<usize> = shape.iter().map(|dim| dim.as_u64()?.try_into().ok()).collect::<Option<_>>()?;
    if name == "ne" {
        shape.reverse();
    }
    Some(shape)
}

/// Nested lists of numbers; a flat one of all elements of a shape is laid out by it.
fn printed(value: &Value, shape: Option<&[usize]>) -> Option<Printed> {
    let mut cells = Vec::new();
    flatten(value.as_array()?, &mut Vec::new(), &mut cells)?;
    if cells.len() < 2 || cells.iter().all(|cell| cell.half_unit >= 0.5 && cell.value.is_finite()) {
        return None;
    }
    let whole = |shape: &&[usize]| {
        let count = shape.iter().try_fold(1_usize, |all, &dim| all.checked_mul(dim));
        shape.len() > 1 && shape.len() <= caps::MAX_DIMS && count == Some(cells.len())
    };
    let flat = cells.iter().all(|cell| cell.at.len() == 1);
    if let Some(shape) = shape.filter(whole).filter(|_| flat) {
        for (position, cell) in cells.iter_mut().enumerate() {
            cell.at = unravelled(position, shape);
        }
        return Some(Printed { shape: Some(shape.to_vec()), ..Printed::new(cells) });
    }
    Some(Printed::new(cells))
}

fn flatten(list: &[Value], at: &mut Vec<i64>, cells: &mut Vec<Cell>) -> Option<()> {
    if at.len() >= caps::MAX_DIMS {
        return None;
    }
    for (index, item) in (0..).zip(list) {
        at.push(index);
        match item {
            Value::Array(inner) => flatten(inner, at, cells)?,
            Value::Number(number) => cells.push(Cell::parse(at, &number.to_string())?),
            // What NaN becomes where a writer keeps to the letter.
            Value::Null => cells.push(Cell::parse(at, "nan")?),
            _ => return None,
        }
        at.pop();
    }
    Some(())
}

fn unravelled(mut position: usize, shape: &[usize]) -> Vec<i64> {
    let mut at = vec![0; shape.len()];
    for (index, &dim) in at.iter_mut().zip(shape).rev() {
        *index = (position % dim.max(1)) as i64;
        position /= dim.max(1);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_json_read() {
        let [Record::Numbers(name, named)] =
            &of_line(r#"{"layer":2,"name":"attn_norm","pos":3,"values":[0.5,-0.25]}"#)[..]
        else {
            panic!()
        };
        assert_eq!((name.as_str(), named.layer, named.position), ("attn_norm", Some(2), Some(3)));
        assert_eq!(named.printed.cells.iter().map(|cell| cell.value).collect::<Vec<_>>(), [0.5, -0.25]);
        let [Record::Numbers(_, named)] = &of_line(r#"{"tensor":"Qcur-0","ne":[2,2],"data":[0.5,1.5,2.5,3.5]}"#)[..]
        else {
            panic!()
        };
        assert_eq!(named.printed.shape, Some(vec![2, 2]));
        assert_eq!(named.printed.cells[2].at, [1, 0]);
        assert_eq!(of_line(r#"{"input_ids":[[1,15043]]}"#), [Record::Tokens(vec![1, 15043])]);
        for line in [r#"{"loss": 0.5}"#, "{", r#"{"name":"x","values":["a"]}"#, r#"{"name":"x","values":[1,2]}"#] {
            assert_eq!(of_line(line), [], "{line}");
        }
    }

    #[test]
    fn files_of_json_read() {
        let text = "[\n {\"name\": \"a\", \"data\": [[0.5, 1.5]]},\n {\"name\": \"b\", \"data\": [2.5, 3.5]}\n]";
        assert_eq!(of_file(text).map(|records| records.len()), Some(2));
        let fields = of_file("{\"tokens\": [1, 2], \"layer_0\": [0.5, 1.5]}").unwrap();
        assert!(matches!(&fields[..], [Record::Tokens(_), Record::Numbers(name, _)] if name == "layer_0"));
        assert_eq!(of_file("no json"), None);
    }
}
