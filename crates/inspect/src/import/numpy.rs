//! One NumPy array, `.npy`: the format specification's versions 1 to 3. Its name is the file's.

use std::{fs::File, io::BufReader, io::Read, path::Path};

use super::{
    ImportError, caps,
    dump::{Dump, Item},
    safetensors::stem,
    tensor::{Content, Element, Tensor, decode},
};

const FORMAT: &str = "NumPy";

/// Reads a `.npy` file.
pub(super) fn read(path: &Path) -> Result<Dump, ImportError> {
    let file = File::open(path).map_err(ImportError::io(path))?;
    let mut dump = Dump::of(FORMAT);
    let name = stem(path);
    let content = array(path, &name, &mut BufReader::new(file))?;
    dump.items.push((name, Item::from(content)));
    Ok(dump)
}

/// What a header says.
#[derive(Debug, PartialEq)]
struct Header {
    element: Element,
    swapped: bool,
    fortran: bool,
    shape: Vec<usize>,
}

/// Reads one array from a stream. The stream is read as far as the header asks, never allocated ahead of it.
pub(super) fn array(path: &Path, name: &str, stream: &mut impl Read) -> Result<Content, ImportError> {
    let malformed = |reason: String| ImportError::malformed(path, FORMAT, format!("{name}: {reason}"));
    let mut start = [0; 8];
    stream.read_exact(&mut start).map_err(|_| malformed("shorter than its first 8 bytes".to_owned()))?;
    if &start[..6] != b"\x93NUMPY" {
        return Err(malformed("does not begin with \\x93NUMPY".to_owned()));
    }
    let mut length = [0; 4];
    let bytes = if start[6] == 1 { 2 } else { 4 };
    stream.read_exact(&mut length[..bytes]).map_err(|_| malformed("ends inside of its header".to_owned()))?;
    let length = u64::from(u32::from_le_bytes(length));
    if length > caps::MAX_NUMPY_HEADER {
        let (what, most) = ("the NumPy header", caps::MAX_NUMPY_HEADER);
        return Err(ImportError::TooLarge { path: path.to_owned(), what, found: length, most });
    }
    let mut text = vec![0; length as usize];
    stream.read_exact(&mut text).map_err(|_| malformed("ends inside of its header".to_owned()))?;
    let header = header(path, name, &String::from_utf8_lossy(&text))?;
    let expected = caps::elements(path, &header.shape)? as u64 * header.element.size() as u64;
    let mut data = Vec::new();
    let found = stream.take(expected).read_to_end(&mut data).map_err(|error| malformed(error.to_string()))?;
    if found as u64 != expected {
        return Err(malformed(format!("{found} bytes of elements, expected {expected}")));
    }
    if header.swapped {
        data.chunks_exact_mut(header.element.size()).for_each(<[u8]>::reverse);
    }
    let content = decode(path, name, header.element, header.shape, &data)?;
    Ok(match content {
        Content::Values(tensor) if header.fortran => Content::Values(row_major(&tensor)),
        content => content,
    })
}

fn header(path: &Path, name: &str, text: &str) -> Result<Header, ImportError> {
    let malformed = |reason: &str| ImportError::malformed(path, FORMAT, format!("{name}: {reason}"));
    let after = |key: &str| {
        let quoted = [format!("'{key}'"), format!("\"{key}\"")];
        let at = quoted.iter().find_map(|quoted| Some(text.find(quoted)? + quoted.len()))?;
        Some(text[at..].trim_start().strip_prefix(':')?.trim_start())
    };
    let descr = after("descr").ok_or_else(|| malformed("no descr in its header"))?;
    let descr: String = descr.chars().skip(1).take_while(|c| !matches!(c, '\'' | '"')).collect();
    let (swapped, kind) = match descr.strip_prefix('>') {
        Some(kind) => (true, kind),
        None => (false, descr.trim_start_matches(['<', '|', '='])),
    };
    let element = match kind {
        "f2" => Element::F16,
        "f4" => Element::F32,
        "f8" => Element::F64,
        "i4" => Element::I32,
        "u4" => Element::U32,
        "i8" => Element::I64,
        "u8" => Element::U64,
        _ => return Err(ImportError::Dtype { path: path.to_owned(), name: name.to_owned(), found: descr }),
    };
    let order = after("fortran_order").ok_or_else(|| malformed("no fortran_order in its header"))?;
    let shape = after("shape").and_then(|shape| shape.strip_prefix('(')?.split_once(')'));
    let (shape, _) = shape.ok_or_else(|| malformed("no shape in its header"))?;
    let shape: Result<Vec<usize>, _> =
        shape.split(',').map(str::trim).filter(|dim| !dim.is_empty()).map(str::parse).collect();
    let mut shape = shape.map_err(|_| malformed("its shape is no list of sizes"))?;
    if shape.is_empty() {
        shape.push(1);
    }
    Ok(Header { element, swapped, fortran: order.starts_with("True"), shape })
}

/// A column-major tensor, its elements put into row-major order.
fn row_major(tensor: &Tensor) -> Tensor {
    let shape = tensor.shape.clone();
    let mut index = vec![0; shape.len()];
    let mut values = Vec::with_capacity(tensor.values.len());
    for _ in 0..tensor.values.len() {
        let mut at = 0;
        for (&position, &dim) in index.iter().zip(&shape).rev() {
            at = at * dim + position;
        }
        values.push(tensor.values[at]);
        for (position, &dim) in index.iter_mut().zip(&shape).rev() {
            *position += 1;
            if *position < dim {
                break;
            }
            *position = 0;
        }
    }
    Tensor { shape, values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_read() {
        let path = Path::new("x.npy");
        let text = "{'descr': '>f8', 'fortran_order': True, 'shape': (2, 3), }   \n";
        let expected = Header { element: Element::F64, swapped: true, fortran: true, shape: vec![2, 3] };
        assert_eq!(header(path, "x", text).unwrap(), expected);
        for text in ["", "{'descr': '<f4'}", "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "'descr'"] {
            assert!(header(path, "x", text).is_err(), "{text}");
        }
    }

    #[test]
    fn columns_become_rows() {
        let columns = Tensor { shape: vec![2, 3], values: vec![0., 3., 1., 4., 2., 5.] };
        assert_eq!(row_major(&columns).values, [0., 1., 2., 3., 4., 5.]);
    }
}
