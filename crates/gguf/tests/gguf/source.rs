//! Files that are read piece by piece: the same as in memory, or the same error, and no more read than asked for.

use crate::mutations::small;
use bytes::Bytes;
use candor_gguf::{ByteOrder, Format, Gguf, Source, Writer};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Bytes in memory that say what was read of them, and fail from an offset on.
struct Watched {
    bytes: Bytes,
    reads: Mutex<Vec<(u64, u64)>>,
    broken: AtomicU64,
}

impl Watched {
    fn new(bytes: impl Into<Bytes>) -> Arc<Watched> {
        Arc::new(Watched { bytes: bytes.into(), reads: Mutex::default(), broken: AtomicU64::new(u64::MAX) })
    }

    fn reads(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }
}

impl Source for Watched {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let end = offset + into.len() as u64;
        if end > self.broken.load(Relaxed) {
            return Err(io::Error::other("the cable was cut"));
        }
        self.reads.lock().unwrap().push((offset, end));
        into.copy_from_slice(&self.bytes[start..start + into.len()]);
        Ok(())
    }
}

#[test]
fn a_source_gives_what_memory_gives() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let whole = small(order);
        let source = Watched::new(whole.clone());
        let (pieces, memory) = (Gguf::from_source(source.clone()).unwrap(), Gguf::from_bytes(whole.into()).unwrap());
        assert!(memory.is_in_memory() && !pieces.is_in_memory());
        assert_eq!(pieces.file_bytes(), memory.file_bytes());
        assert!(pieces.metadata().iter().eq(memory.metadata().iter()));
        assert_eq!(pieces.tensors(), memory.tensors());
        for tensor in memory.tensors() {
            source.reads();
            assert_eq!(pieces.read_data(tensor).unwrap(), memory.data(tensor), "{}", tensor.name);
            assert_eq!(source.reads(), [(tensor.offset(), tensor.offset() + tensor.bytes)]);
            let head = pieces.read_head(tensor, 5).unwrap();
            assert_eq!(head, memory.read_head(tensor, 5).unwrap());
            assert_eq!(source.reads(), [(tensor.offset(), tensor.offset() + 5)]);
        }
    }
}

#[test]
fn damaged_sources_have_the_errors_of_damaged_files() {
    let whole = small(ByteOrder::Little);
    for length in 0..whole.len() {
        let cut = &whole[..length];
        let error = |opened: Result<Gguf, candor_gguf::Error>| opened.err().map(|error| error.to_string());
        let expected = error(Gguf::from_bytes(cut.to_vec().into()));
        assert_eq!(error(Gguf::from_source(Watched::new(cut.to_vec()))), expected, "{length} bytes");
    }
}

#[test]
fn as_much_of_the_beginning_is_read_as_it_takes() {
    let mut writer = Writer::new();
    writer.insert("tokens", (0..400_000).map(|i| format!("token {i}")).collect::<Vec<_>>());
    writer.tensor("w", Format::F32, &[1 << 20, 8], vec![1; 32 << 20]).unwrap();
    let whole = writer.to_bytes().unwrap();
    let source = Watched::new(whole.clone());
    let file = Gguf::from_source(source.clone()).unwrap();
    assert_eq!(file.metadata(), Gguf::from_bytes(whole).unwrap().metadata());
    let reads = source.reads();
    // One after the other, none twice, and at most twice as much as the vocabulary takes.
    assert!(reads.len() > 2 && reads.windows(2).all(|pair| pair[0].1 == pair[1].0), "{reads:?}");
    assert!(reads.last().unwrap().1 < 2 * file.tensors()[0].offset(), "{reads:?}");
}

#[test]
fn who_has_a_tensor_shares_it() {
    let source = Watched::new(small(ByteOrder::Little));
    let file = Gguf::from_source(source.clone()).unwrap();
    let tensor = &file.tensors()[0];
    source.reads();
    let first = file.read_data(tensor).unwrap();
    assert_eq!(file.read_data(tensor).unwrap().as_ptr(), first.as_ptr());
    assert_eq!(source.reads().len(), 1);
    // Nobody has it any more: it takes no memory, and is read again.
    drop(first);
    file.read_data(tensor).unwrap();
    assert_eq!(source.reads().len(), 1);
}

#[test]
fn a_source_that_fails_is_an_error() {
    let source = Watched::new(small(ByteOrder::Little));
    let file = Gguf::from_source(source.clone()).unwrap();
    source.broken.store(file.tensors()[1].offset(), Relaxed);
    assert!(file.read_data(&file.tensors()[0]).is_ok());
    let error = file.read_data(&file.tensors()[1]).unwrap_err().to_string();
    assert!(error.contains("read") && error.contains("the cable was cut"), "{error}");
    source.broken.store(0, Relaxed);
    assert!(Gguf::from_source(source).unwrap_err().to_string().contains("the cable was cut"));
}

#[test]
fn a_split_comes_from_sources_in_order() {
    let part = |number: u16, name: &str| {
        let mut writer = Writer::new();
        writer.insert("split.no", number);
        writer.insert("split.count", 2u16);
        writer.insert("split.tensors.count", 2i32);
        writer.tensor(name, Format::F32, &[4], vec![number as u8; 16]).unwrap();
        Watched::new(writer.to_bytes().unwrap()) as Arc<dyn Source>
    };
    let file = Gguf::from_sources(vec![part(0, "a"), part(1, "b")]).unwrap();
    assert_eq!(file.read_data(file.tensor("b").unwrap()).unwrap()[..], [1; 16]);
    assert!(Gguf::from_sources(vec![part(1, "b"), part(0, "a")]).is_err());
}
