//! Many NumPy arrays in one `.npz` archive, stored or deflated.

use std::{fs::File, io, io::BufReader, io::Read, path::Path};

use super::{
    ImportError, caps,
    dump::{Dump, Item},
    numpy,
    tensor::Content,
};

const FORMAT: &str = ".npz";

/// Reads an `.npz` file. Members that are no arrays are left out.
pub(super) fn read(path: &Path) -> Result<Dump, ImportError> {
    let file = File::open(path).map_err(ImportError::io(path))?;
    let length = file.metadata().map_err(ImportError::io(path))?.len();
    let malformed = |error: zip::result::ZipError| ImportError::malformed(path, FORMAT, error.to_string());
    let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(malformed)?;
    let too_large = |what, found, most| ImportError::TooLarge { path: path.to_owned(), what, found, most };
    if archive.len() > caps::MAX_MEMBERS {
        return Err(too_large("the number of members", archive.len() as u64, caps::MAX_MEMBERS as u64));
    }
    // What an archive says of its members' sizes is not believed: bytes are counted as they come out.
    let most = caps::FREE_UNPACKED.max(length.saturating_mul(caps::MAX_UNPACK_RATIO));
    let mut left = most;
    let mut dump = Dump::of(FORMAT);
    let mut elements = 0;
    for index in 0..archive.len() {
        let member = archive.by_index(index).map_err(malformed)?;
        let name = member.name().map_err(malformed)?.into_owned();
        if name.ends_with("data.pkl") {
            let reason = "a PyTorch pickle, which is code; save the tensors with safetensors instead";
            return Err(ImportError::malformed(path, FORMAT, reason));
        }
        let Some(name) = name.strip_suffix(".npy").map(str::to_owned) else { continue };
        let mut stream = Counted { stream: member, left };
        let content = numpy::array(path, &name, &mut stream);
        left = stream.left;
        if left == 0 {
            return Err(too_large("the unpacked size", most.saturating_add(1), most));
        }
        let content = content?;
        if let Content::Values(tensor) = &content {
            elements += tensor.values.len() as u64;
        }
        if elements > caps::MAX_VALUES {
            return Err(too_large("the number of elements", elements, caps::MAX_VALUES));
        }
        dump.items.push((name, Item::from(content)));
    }
    Ok(dump)
}

/// A stream that ends when its share is used up.
struct Counted<R> {
    stream: R,
    left: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (&mut self.stream).take(self.left).read(buffer)?;
        self.left -= count as u64;
        Ok(count)
    }
}
