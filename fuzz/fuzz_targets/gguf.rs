//! Any bytes as a GGUF file: opening them ends in a file or an error, and a file can be read whole and written again.
//!
//! `cargo +nightly fuzz run gguf`; small real files make a good corpus.
#![no_main]

use bytes::Bytes;
use candor_gguf::{Gguf, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let file = match Gguf::from_bytes(Bytes::copy_from_slice(data)) {
        Ok(file) => file,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "one line");
            return;
        }
    };
    for (key, value) in file.metadata().iter() {
        assert!(!key.is_empty());
        let _ = (format!("{value}"), file.metadata().i32s(key));
    }
    for tensor in file.tensors() {
        assert_eq!(file.data(tensor).len() as u64, tensor.bytes);
    }
    if file.alignment() > 4096 {
        return; // right, but the padding of a copy would take all the memory
    }
    let written = Writer::copy_of(&file).and_then(|writer| writer.to_bytes()).expect("what was read can be written");
    let again = Gguf::from_bytes(written).expect("what was written can be read");
    // Compared as text: a NaN is not equal to itself.
    assert_eq!(format!("{:?}", again.metadata().get("k")), format!("{:?}", file.metadata().get("k")));
    assert_eq!(again.tensors().len(), file.tensors().len());
    for (new, old) in again.tensors().iter().zip(file.tensors()) {
        assert_eq!((&new.name, new.format, &new.shape), (&old.name, old.format, &old.shape));
        assert_eq!(again.data(new), file.data(old));
    }
});
