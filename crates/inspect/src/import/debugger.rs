//! The call tree that Hugging Face Transformers' `model_addition_debugger_context` writes, `_FULL_TENSORS.json`: modules
//! with what they took and gave, values printed by PyTorch or in safetensors files beside it. Only modules without
//! children keep what they gave; what the others took stands in for it.

use std::{fs, path::Path};

use serde_json::Value;

use super::{
    ImportError, SafeFile, caps,
    dump::{Dump, Item},
    printed::Printed,
};

const FORMAT: &str = "model_addition_debugger";
/// Levels of modules inside of modules.
const MAX_DEPTH: usize = 64;

/// Reads a call tree.
pub(super) fn read(path: &Path) -> Result<Dump, ImportError> {
    let found = fs::metadata(path).map_err(ImportError::io(path))?.len();
    if found > caps::MAX_TEXT {
        let (what, most) = ("the text in bytes", caps::MAX_TEXT);
        return Err(ImportError::TooLarge { path: path.to_owned(), what, found, most });
    }
    let bytes = fs::read(path).map_err(ImportError::io(path))?;
    let tree: Value =
        serde_json::from_slice(&bytes).map_err(|error| ImportError::malformed(path, FORMAT, error.to_string()))?;
    let mut walk = Walk { path, dump: Dump::of(FORMAT), statistics: 0 };
    walk.dump.origin.engine = Some("Hugging Face Transformers".to_owned());
    walk.module(&tree, 0)?;
    if walk.dump.items.is_empty() && walk.statistics > 0 {
        return Err(ImportError::Statistics { path: path.to_owned() });
    }
    Ok(walk.dump)
}

struct Walk<'a> {
    path: &'a Path,
    dump: Dump,
    /// Tensors without values, as the summary has them.
    statistics: usize,
}

impl Walk<'_> {
    fn module(&mut self, module: &Value, depth: usize) -> Result<(), ImportError> {
        if depth > MAX_DEPTH {
            return Err(ImportError::malformed(self.path, FORMAT, format!("modules nest deeper than {MAX_DEPTH}")));
        }
        let name = module.get("module_path").and_then(Value::as_str).unwrap_or_default();
        // Outputs first: where both ends name the same value, the output is nearer to it.
        if let Some(outputs) = module.get("outputs") {
            self.tensor(&format!("{name}.output"), first(outputs))?;
        }
        if let Some(inputs) = module.get("inputs") {
            let argument = inputs.get("args").map(first).filter(|value| is_tensor(value));
            let argument = argument.or_else(|| inputs.get("kwargs")?.get("hidden_states"));
            if let Some(argument) = argument {
                self.tensor(&format!("{name}.input"), argument)?;
            }
            if let Some(ids) = inputs.get("kwargs").and_then(|kwargs| kwargs.get("input_ids")) {
                self.tensor("input_ids", ids)?;
            }
        }
        for child in module.get("children").and_then(Value::as_array).into_iter().flatten() {
            self.module(child, depth + 1)?;
        }
        Ok(())
    }

    /// Takes a `{"shape", "dtype", "value"}`; anything else is passed over.
    fn tensor(&mut self, name: &str, value: &Value) -> Result<(), ImportError> {
        let Some(shape) = value.get("shape").and_then(Value::as_str).and_then(shape) else { return Ok(()) };
        let floats = value.get("dtype").and_then(Value::as_str).is_some_and(|dtype| dtype.contains("float"));
        let item = match value.get("value") {
            Some(Value::Array(lines)) => {
                let text: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
                let Some(printed) = printed(&text.join("\n")) else { return Ok(()) };
                caps::elements(self.path, &shape)?;
                if floats {
                    Item::Printed(Printed { shape: Some(shape), ..printed })
                } else if let Some(ids) = ids(&printed, &shape).filter(|_| name == "input_ids") {
                    Item::Ids(ids)
                } else {
                    return Ok(());
                }
            }
            Some(Value::String(file)) => {
                let Some(item) = self.beside(file)? else { return Ok(()) };
                item
            }
            _ => {
                self.statistics += usize::from(floats);
                return Ok(());
            }
        };
        let name = if matches!(item, Item::Ids(_)) { "input_ids" } else { name };
        self.dump.items.push((name.to_owned(), item));
        Ok(())
    }

    /// A safetensors file in the tree's folder. Names that leave the folder are passed over.
    fn beside(&self, file: &str) -> Result<Option<Item>, ImportError> {
        let file = file.trim_start_matches("./");
        let inside = !file.is_empty() && !file.contains(['/', '\\']) && file != "..";
        let Some(folder) = self.path.parent().filter(|_| inside) else { return Ok(None) };
        let path = folder.join(file);
        if !path.is_file() {
            return Ok(None);
        }
        let mut items = SafeFile::open(&path)?.dump(&path)?.items;
        Ok((items.len() == 1).then(|| items.pop()).flatten().map(|(_, item)| item))
    }
}

fn first(value: &Value) -> &Value {
    value.as_array().and_then(|items| items.first()).unwrap_or(value)
}

fn is_tensor(value: &Value) -> bool {
    value.get("shape").is_some()
}

/// `torch.Size([1, 5, 64])`.
fn shape(text: &str) -> Option<Vec<usize>> {
    let (_, rest) = text.split_once('[')?;
    let (dims, _) = rest.split_once(']')?;
    dims.split(',').map(str::trim).filter(|dim| !dim.is_empty()).map(|dim| dim.parse().ok()).collect()
}

/// `tensor([[...]], device='cuda:0')`.
fn printed(text: &str) -> Option<Printed> {
    let start = text.find('[')?;
    let end = text.rfind(']')?;
    Printed::parse(text.get(start..=end)?)
}

/// Token ids, where every one is printed.
fn ids(printed: &Printed, shape: &[usize]) -> Option<Vec<u32>> {
    let complete = shape.iter().fold(1_usize, |all, &dim| all.saturating_mul(dim)) == printed.cells.len();
    let whole = printed.cells.iter().all(|cell| cell.value >= 0.0 && cell.value.fract() == 0.0);
    (complete && whole).then(|| printed.cells.iter().map(|cell| cell.value as u32).collect())
}
