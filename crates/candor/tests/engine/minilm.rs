//! A real encoder, all-MiniLM-L6-v2, against sentence-transformers on 200 sentences. The weights are not in the repository:
//! `CANDOR_MINILM` names the folder of `minilm-f32.gguf` and `minilm-f16.gguf`, which `tools/goldens/minilm.py` writes.

use std::{fs, io::Write, path::Path, path::PathBuf};

use candor::{Device, EmbedOptions, Format, LoadOptions, Model, Pooling};

/// The golden vectors are rounded to 11 bits, which costs a cosine about 4e-8.
const COSINE: f64 = 0.999_999;

fn weights() -> Option<PathBuf> {
    let folder = std::env::var_os("CANDOR_MINILM").map(PathBuf::from);
    if folder.is_none() {
        let reason = "skipped: CANDOR_MINILM names no folder with minilm-f32.gguf (tools/goldens/minilm.py writes it)";
        let _ = writeln!(std::io::stderr(), "{reason}");
    }
    folder
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name)
}

/// The rows of a half-precision NumPy file of 200 rows.
fn vectors() -> Vec<Vec<f32>> {
    let bytes = fs::read(golden("minilm.npy")).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[10..start]);
    assert!(header.contains("'<f2'") && header.contains("(200, 384)"), "{header}");
    let mut values = vec![0.0; 200 * 384];
    Format::F16.decode(&bytes[start..], &mut values);
    values.chunks_exact(384).map(<[f32]>::to_vec).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn two_hundred_sentences_agree_with_sentence_transformers() {
    let Some(folder) = weights() else { return };
    let text = fs::read_to_string(golden("minilm-sentences.txt")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let expected = vectors();
    assert_eq!(lines.len(), expected.len());
    for file in ["minilm-f32.gguf", "minilm-f16.gguf"] {
        let options = LoadOptions::default().device(Device::Cpu);
        let model = Model::open(folder.join(file), &options).unwrap();
        let mut embedder = model.embedder(&EmbedOptions::default()).unwrap();
        assert_eq!((embedder.pooling(), embedder.width()), (Pooling::Mean, 384));
        let ids: Vec<Vec<u32>> = lines.iter().map(|line| embedder.encode(line)).collect();
        let got = embedder.embed(&ids, |_| ()).unwrap();
        let mut cosines: Vec<(f64, &str)> = Vec::new();
        for ((got, expected), line) in got.iter().zip(&expected).zip(&lines) {
            let length: f64 = got.iter().map(|&x| f64::from(x).powi(2)).sum();
            assert!((length - 1.0).abs() < 1e-5, "{file}: {line}: length {length}");
            cosines.push((cosine(got, expected), line));
        }
        cosines.sort_by(|a, b| a.0.total_cmp(&b.0));
        println!("{file}: least cosine {:.9}, {:?}", cosines[0].0, cosines[0].1);
        for (cosine, line) in &cosines {
            assert!(*cosine > COSINE, "{file}: {line}: {cosine}");
        }
    }
}
