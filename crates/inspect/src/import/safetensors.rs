//! Opening a safetensors file: the header is checked whole, tensors are read one at a time.

use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use safetensors::{Dtype, tensor::Metadata};

use super::{
    ImportError, Tensor, caps,
    dump::{Dump, Item},
    tensor::{Content, Element, decode},
};

/// A file's name without its extension.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What the messages call this format.
const FORMAT: &str = "safetensors";

/// An open file with a sound header.
pub(crate) struct SafeFile {
    path: PathBuf,
    file: File,
    data: u64,
    header: Metadata,
}

impl SafeFile {
    pub(crate) fn open(path: &Path) -> Result<SafeFile, ImportError> {
        let mut file = File::open(path).map_err(ImportError::io(path))?;
        let length = file.metadata().map_err(ImportError::io(path))?.len();
        let mut size = [0; 8];
        file.read_exact(&mut size).map_err(|_| ImportError::malformed(path, FORMAT, "shorter than 8 bytes"))?;
        let size = u64::from_le_bytes(size);
        if size > caps::MAX_SAFETENSORS_HEADER || size > length - 8 {
            let reason = format!("its header would be {size} bytes in a file of {length}");
            return Err(ImportError::malformed(path, FORMAT, reason));
        }
        let mut header = vec![0; size as usize];
        file.read_exact(&mut header).map_err(ImportError::io(path))?;
        let header: Metadata = serde_json::from_slice(&header)
            .map_err(|error| ImportError::malformed(path, FORMAT, format!("header: {error}")))?;
        let (expected, found) = (header.data_len() as u64, length - 8 - size);
        if expected != found {
            let reason = format!("{found} bytes of tensors, expected {expected}");
            return Err(ImportError::malformed(path, FORMAT, reason));
        }
        Ok(SafeFile { path: path.to_owned(), file, data: 8 + size, header })
    }

    /// Names in the order of the file.
    pub(crate) fn names(&self) -> Vec<String> {
        self.header.offset_keys()
    }

    /// The `__metadata__` of the file.
    pub(crate) fn metadata(&self) -> HashMap<String, String> {
        self.header.metadata().clone().unwrap_or_default()
    }

    /// Reads one tensor.
    pub(super) fn content(&mut self, name: &str) -> Result<Content, ImportError> {
        let missing = || ImportError::malformed(&self.path, FORMAT, format!("no tensor {name}"));
        let info = self.header.info(name).ok_or_else(missing)?.clone();
        let element = match info.dtype {
            Dtype::F16 => Element::F16,
            Dtype::BF16 => Element::Bf16,
            Dtype::F32 => Element::F32,
            Dtype::F64 => Element::F64,
            Dtype::I32 => Element::I32,
            Dtype::U32 => Element::U32,
            Dtype::I64 => Element::I64,
            Dtype::U64 => Element::U64,
            other => {
                let found = format!("{other:?}");
                return Err(ImportError::Dtype { path: self.path.clone(), name: name.to_owned(), found });
            }
        };
        caps::elements(&self.path, &info.shape)?;
        let (start, end) = info.data_offsets;
        let mut bytes = vec![0; end - start];
        let io = ImportError::io(&self.path);
        self.file
            .seek(SeekFrom::Start(self.data + start as u64))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(io)?;
        decode(&self.path, name, element, info.shape, &bytes)
    }

    /// Reads one tensor of floats.
    pub(crate) fn values(&mut self, name: &str) -> Result<Tensor, ImportError> {
        match self.content(name)? {
            Content::Values(tensor) => Ok(tensor),
            Content::Ids(_) => {
                Err(ImportError::Dtype { path: self.path.clone(), name: name.to_owned(), found: "integer".to_owned() })
            }
        }
    }

    /// Reads every tensor. One alone with a name that says nothing, as Transformers' debugger writes them, takes the
    /// file's.
    pub(super) fn dump(&mut self, path: &Path) -> Result<Dump, ImportError> {
        let mut dump = Dump::of("safetensors");
        let names = self.names();
        let total: u64 = names.iter().filter_map(|name| self.header.info(name)).fold(0, |total, info| {
            total.saturating_add(info.shape.iter().fold(1, |product: u64, &dim| product.saturating_mul(dim as u64)))
        });
        if total > caps::MAX_VALUES {
            let (what, most) = ("the number of elements", caps::MAX_VALUES);
            return Err(ImportError::TooLarge { path: path.to_owned(), what, found: total, most });
        }
        let alone = names.len() == 1;
        for name in names {
            let item = Item::from(self.content(&name)?);
            let nameless = alone && matches!(name.as_str(), "data" | "tensor" | "value" | "values" | "x");
            dump.items.push((if nameless { stem(path) } else { name }, item));
        }
        Ok(dump)
    }
}
