//! Copies of the fixtures whose matrices are divided by a number that the file has beside them, as files in NVFP4 have: they
//! compute what the fixtures do, or are refused by the number's name. So does llama.cpp with such copies of llama, mixtral, qwen3moe
//! and nemotron-h (llama-cpp-python 0.3.36; in some other wirings it leaves numbers out that it has read).

use candor_gguf::{Format, Gguf, Writer};
use candor_models::Decoder;
use candor_ops::Reference;
use candor_testing::nmse;

use crate::{
    rows,
    run::{Case, chosen},
};

const MATRICES: [&str; 13] = [
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_qkv",
    "attn_output",
    "attn_o",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
    "ssm_in",
    "ssm_out",
    "ssm_alpha",
    "ssm_beta",
];

/// The model with numbers beside its matrices, of experts one for each.
fn scaled(gguf: &Gguf) -> Gguf {
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata().iter() {
        writer.insert(key, value.clone());
    }
    for (number, tensor) in gguf.tensors().iter().enumerate() {
        let mut bytes = gguf.data(tensor).to_vec();
        let name = tensor.name.strip_suffix(".weight").unwrap_or_default();
        let part = name.rsplit('.').next().unwrap_or_default();
        let part = part.trim_end_matches("_exps").trim_end_matches("_shexp");
        let free = gguf.tensor(&format!("{name}.scale")).is_none();
        if MATRICES.contains(&part) && tensor.format == Format::F32 && free {
            let matrices = tensor.shape.get(2).map_or(1, |&experts| experts as usize);
            let scales: Vec<f32> = (0..matrices).map(|i| 0.3 + 0.1 * number as f32 + 0.7 * i as f32).collect();
            let each = bytes.len() / matrices;
            for (matrix, scale) in bytes.chunks_exact_mut(each).zip(&scales) {
                for value in matrix.as_chunks_mut::<4>().0 {
                    *value = (f32::from_le_bytes(*value) / scale).to_le_bytes();
                }
            }
            let scales: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
            for part in ["scale", "input_scale"] {
                let shape = [matrices as u64];
                writer.tensor(&format!("{name}.{part}"), Format::F32, &shape, scales.clone()).unwrap();
            }
        }
        writer.tensor(&tensor.name, tensor.format, &tensor.shape, bytes).unwrap();
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}

#[test]
fn matrices_with_a_scale_are_what_they_are_with_it() {
    let (mut run, mut refused, mut faults) = (0, Vec::new(), Vec::new());
    for folder in chosen() {
        let case = Case::open(&folder);
        let input = case.input();
        let all = |gguf: &Gguf| {
            let model = Decoder::load(gguf, &mut Reference)?;
            Ok::<_, candor_models::Error>(rows(&model, &Reference, input, input.tokens.len()))
        };
        match all(&scaled(&case.gguf)) {
            Ok(got) => {
                run += 1;
                let error = nmse(&got, &all(&case.gguf).unwrap());
                if error.is_nan() || error > 1e-9 {
                    faults.push(format!("{}: {error:e}", case.name));
                }
            }
            Err(error) if error.to_string().contains("scale") => refused.push(format!("{}: {error}", case.name)),
            Err(error) => faults.push(format!("{}: {error}", case.name)),
        }
    }
    println!("{run} run; refused: {refused:#?}");
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(std::env::var_os("CANDOR_ONLY").is_some() || run > 2 * refused.len(), "{run} run, {}", refused.len());
}
