//! `cargo xtask synth`: a GGUF file that llama.cpp loads and that has a real model's shapes, formats and vocabulary
//! size, but random weights. For measuring speed and memory, not for reading what it writes.

mod kinds;
mod shape;
mod tensors;
mod vocabulary;
mod weights;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use candor_convert::Model;
use candor_gguf::{Format, Writer};

use kinds::{KINDS, Kind};
use shape::{Ffn, SHAPES, Shape};
use tensors::{Layer, NORM, Tensor, keep};
use weights::Spread;

/// The names that `run` takes, for the usage text.
pub fn choices() -> String {
    let shapes: Vec<_> = SHAPES.iter().map(|shape| shape.name).collect();
    let formats: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
    format!("shapes: {}\nformats: {}", shapes.join(" "), formats.join(" "))
}

/// Writes a model of the named shape and format to `file`.
pub fn run(shape: &str, format: &str, file: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let shape =
        SHAPES.iter().find(|s| s.name == shape).ok_or_else(|| format!("{shape}: no such shape\n{}", choices()))?;
    let kind = KINDS
        .iter()
        .find(|kind| kind.name == format)
        .ok_or_else(|| format!("{format}: no such format\n{}", choices()))?;
    let file = match file {
        Some(file) => file.to_owned(),
        None => default_file(shape, kind)?,
    };
    let begun = Instant::now();
    model(shape, kind)?.write_file(&file)?;
    let megabytes = fs::metadata(&file)?.len() as f64 / 1e6;
    println!("{}: {megabytes:.1} MB in {:.1} s", file.display(), begun.elapsed().as_secs_f64());
    Ok(())
}

fn default_file(shape: &Shape, kind: &Kind) -> Result<PathBuf, Box<dyn Error>> {
    let folder = crate::command::root().join("target").join("synth");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{}-{}.gguf", shape.name, kind.name)))
}

/// Metadata and tensors; the latter are made when they are written.
fn model(shape: &'static Shape, kind: &'static Kind) -> Result<Writer, Box<dyn Error>> {
    let mut writer = Writer::new();
    shape.describe(&mut writer);
    writer.insert("general.file_type", kind.file_type);
    writer.insert("general.quantization_version", 2u32);
    vocabulary::describe(&mut writer, shape.vocab);

    if let Some(factors) = shape.rope_factors() {
        let bytes: Vec<u8> = factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
        writer.tensor("rope_freqs.weight", Format::F32, &[factors.len() as u64], bytes)?;
    }
    let (dim, vocab) = (shape.dim, u64::from(shape.vocab));
    let mut tensors = Vec::new();
    let mut add = |tensor: Tensor| tensors.push(tensor);

    // The head spreads logits by 3, as trained models do.
    let head = Spread { mean: 0.0, deviation: 3.0 / (dim as f32).sqrt() };
    let embedding = if shape.tied { head } else { keep(dim) };
    add(Tensor::new("token_embd.weight", &[dim, vocab], embedding));
    let encodes = matches!(shape.ffn, Ffn::Encoder(_));
    if encodes {
        add(Tensor::new("position_embd.weight", &[dim, u64::from(shape.context)], keep(dim)));
        add(Tensor::new("token_types.weight", &[dim, 2], keep(dim)));
        add(Tensor::new("token_embd_norm.weight", &[dim], NORM));
        add(Tensor::new("token_embd_norm.bias", &[dim], keep(dim)));
    }
    for number in 0..shape.layers {
        Layer { number, add: &mut add }.write(shape);
    }
    if !encodes {
        add(Tensor::new("output_norm.weight", &[dim], NORM));
    }
    if !shape.tied {
        add(Tensor::new("output.weight", &[dim, vocab], head));
    }
    let plain = |tensor: &Tensor| (tensor.name.clone(), tensor.shape.clone());
    let named: Vec<_> = tensors.iter().map(plain).collect();
    let asked: Vec<_> =
        named.iter().map(|(name, shape)| candor_convert::Tensor { name, format: Format::F32, shape }).collect();
    let choices = kind.mix(shape.tied).choices(&Model::of(writer.metadata())?, &asked)?;
    for (Tensor { name, shape, spread }, choice) in tensors.into_iter().zip(choices) {
        let (format, elements) = (choice.format, shape.iter().product::<u64>() as usize);
        let seed = name.clone();
        writer.tensor_from(&name, format, &shape, move || Ok(weights::make(format, elements, spread, &seed).into()))?;
    }
    Ok(writer)
}

#[cfg(test)]
mod tests {
    use candor_gguf::Gguf;

    use super::*;

    #[test]
    fn tiny_models_of_every_format_are_whole() {
        let shape = &SHAPES[0];
        assert_eq!(shape.name, "tiny");
        for kind in KINDS {
            let file = Gguf::from_bytes(model(shape, kind).unwrap().to_bytes().unwrap()).unwrap();
            assert_eq!(file.tensors().len(), 3 + 9 * shape.layers as usize, "{}", kind.name);
            for tensor in file.tensors() {
                let mut values = vec![0.0; tensor.elements() as usize];
                tensor.format.decode(&file.data(tensor), &mut values);
                let least = values.iter().copied().fold(f32::INFINITY, f32::min);
                let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                assert!(values.iter().all(|v| v.is_finite()), "{} {}", kind.name, tensor.name);
                assert!(least < greatest && greatest < 2.0, "{} {}: {least} {greatest}", kind.name, tensor.name);
            }
            let tokens = file.metadata().strings("tokenizer.ggml.tokens").unwrap().expect("a vocabulary");
            assert_eq!(tokens.len(), shape.vocab as usize);
        }
    }

    #[test]
    fn every_shape_has_whole_blocks_in_every_format() {
        for shape in SHAPES {
            for kind in KINDS {
                model(shape, kind).unwrap();
            }
        }
    }

    /// Llama 3.2 has 64 pairs; its published file begins with ones and ends with the whole factor.
    #[test]
    fn rope_factors_go_from_one_to_all() {
        let shape = SHAPES.iter().find(|shape| shape.name == "llama3.2-3b").unwrap();
        let factors = shape.rope_factors().unwrap();
        assert_eq!((factors.len(), factors[0], factors[63]), (64, 1.0, 32.0));
        assert!(factors.is_sorted());
    }

    #[test]
    fn unknown_names_are_told_with_the_choices() {
        for (shape, format, expected) in
            [("huge", "f32", "huge: no such shape\n"), ("tiny", "q9", "q9: no such format\n")]
        {
            let error = run(shape, format, None).unwrap_err().to_string();
            assert!(error.starts_with(expected) && error.contains("tinyllama") && error.contains("q4_k_m"), "{error}");
        }
    }
}
