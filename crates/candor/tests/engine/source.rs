//! Models whose file is read piece by piece: the bits of one in memory, and no weight is read twice.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use candor::{Device, EmbedOptions, Gguf, LoadOptions, Model, Pooling, Source};
use candor_testing::fixtures;

/// Bytes that count how often what begins at an offset is read.
struct Counted(Bytes, Mutex<HashMap<u64, usize>>);

impl Source for Counted {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        *self.1.lock().unwrap().entry(offset).or_default() += 1;
        into.copy_from_slice(&self.0[offset as usize..][..into.len()]);
        Ok(())
    }
}

fn numbers(gguf: Gguf) -> Vec<f32> {
    let model = Model::from_gguf(gguf, &LoadOptions::default().device(Device::Cpu).threads(1)).unwrap();
    let tokens: Vec<u32> = (1..8).collect();
    if model.continues_text().is_err() {
        let mut embedder = model.embedder(&EmbedOptions::default().pooling(Pooling::Mean)).unwrap();
        return embedder.embed(&[tokens], |_| {}).unwrap().concat();
    }
    let mut session = model.session(&Default::default()).unwrap();
    if model.is_encoder_decoder() {
        session.read_text(&tokens).unwrap();
    }
    session.evaluate(&tokens).unwrap();
    session.logits().to_vec()
}

#[test]
fn every_architecture_loads_from_a_source() {
    let Some(fixtures) = fixtures() else { return };
    let mut folders: Vec<_> =
        std::fs::read_dir(fixtures.join("arch")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let mut done = 0;
    for path in folders.iter().map(|folder| folder.join("model.gguf")).filter(|path| path.is_file()) {
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let source = Arc::new(Counted(bytes.clone(), Mutex::default()));
        let pieces = Gguf::from_source(source.clone()).unwrap();
        let tensors = pieces.tensors().to_vec();
        if Model::from_gguf(Gguf::from_bytes(bytes.clone()).unwrap(), &LoadOptions::default().device(Device::Cpu))
            .is_err()
        {
            continue;
        }
        let (got, expected) = (numbers(pieces), numbers(Gguf::from_bytes(bytes).unwrap()));
        assert!(got == expected && got.iter().any(|number| *number != 0.0), "{}", path.display());
        let reads = source.1.lock().unwrap();
        for tensor in tensors.iter().filter(|tensor| tensor.shape.len() > 1) {
            let count = reads.get(&tensor.offset()).copied().unwrap_or(0);
            assert!(count <= 1, "{}: {} is read {count} times", path.display(), tensor.name);
        }
        done += 1;
    }
    assert!(done > 80, "{done} architectures");
}
