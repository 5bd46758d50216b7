//! Copies of the fixtures with quantized weights: products round their inputs then, which is no fault.

use std::panic::{AssertUnwindSafe, catch_unwind};

use candor_cpu::Batching;
use candor_gguf::{Format, Gguf, TensorInfo, Writer};
use candor_inspect::{Outcome, replay::Rounding};

use crate::run::{Case, chosen, diagnosed};

/// Matrices of three dimensions are experts' or heads'.
fn stacked(tensor: &TensorInfo) -> bool {
    tensor.shape.len() == 3
}

/// Whether programs quantize a tensor: a matrix that rows are multiplied with, of whole blocks.
fn multiplied(tensor: &TensorInfo) -> bool {
    let small = [
        "_norm",
        "ssm_conv1d",
        "ssm_a",
        "shortconv.conv",
        "time_mix_first",
        "lerp",
        "rel_b",
        "altup",
        "position",
        "types",
    ];
    tensor.shape.len() > 1
        && tensor.name.ends_with(".weight")
        && tensor.shape[0].is_multiple_of(32)
        && !small.iter().any(|part| tensor.name.contains(part))
}

/// The model with its matrices in the formats that `format` names.
fn stored(gguf: &Gguf, format: impl Fn(&TensorInfo) -> Format) -> Gguf {
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata().iter() {
        writer.insert(key, value.clone());
    }
    for tensor in gguf.tensors() {
        let bytes = gguf.data(tensor).to_vec();
        if !multiplied(tensor) {
            writer.tensor(&tensor.name, tensor.format, &tensor.shape, bytes).unwrap();
            continue;
        }
        let mut values = vec![0.0; tensor.shape.iter().product::<u64>() as usize];
        tensor.format.decode(&bytes, &mut values);
        let format = format(tensor);
        let mut bytes = vec![0; values.len() / format.block_len() * format.block_bytes()];
        format.encode(&values, &mut bytes).unwrap();
        writer.tensor(&tensor.name, format, &tensor.shape, bytes).unwrap();
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}

#[test]
fn runs_with_8_bit_weights_are_healthy() {
    let mut faults = Vec::new();
    for folder in chosen() {
        let case = Case::open(&folder);
        let Case { name, gguf, .. } = &case;
        let mut copies = vec![("all", stored(gguf, |_| Format::Q8_0))];
        if gguf.tensors().iter().any(|tensor| stacked(tensor) && multiplied(tensor)) {
            // As real files of gpt-oss are: what is left tells nothing of how the experts' inputs are rounded.
            let mixed = |tensor: &TensorInfo| if stacked(tensor) { Format::Q8_0 } else { Format::Bf16 };
            copies.push(("stacked", stored(gguf, mixed)));
        }
        for (which, copy) in copies {
            // One fixture's panic must not hide the others' faults.
            match catch_unwind(AssertUnwindSafe(|| diagnosed(&copy, case.input(), Batching::Invariant))) {
                Ok(said) if said.outcome == Outcome::Healthy && said.rounding == Rounding::Searched => {}
                Ok(said) => faults.push(format!(
                    "{name}, {which}: {:?}, rounding {:?}, first wrong {:?}",
                    said.outcome, said.rounding, said.first_wrong
                )),
                Err(_) => faults.push(format!("{name}, {which}: panic")),
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
