//! Steps of any mixture of sequences that come, go, fork, go back, are kept and removed: each sequence has the bits that it has
//! alone, and all pages return.

use candor::{
    BatchOptions, Batching, Device, Error, Gguf, LoadOptions, Model, Outputs, Role, SequenceId, SessionOptions, Value,
    Want,
};
use candor_kernels::Kernels;
use candor_testing::{Tiny, fixtures};

use crate::company::{MODELS, check};

fn tiny(load: &LoadOptions) -> Model {
    Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), load).unwrap()
}

#[test]
fn sequences_in_any_company_have_the_bits_that_they_have_alone() {
    for device in [Device::Cpu, Device::Reference] {
        let model = tiny(&LoadOptions::default().device(device).threads(2));
        check(&format!("tiny, {device:?}"), &model, 60, Some(5 * 256));
    }
    let Some(fixtures) = fixtures() else { return };
    for name in MODELS {
        let load = LoadOptions::default().threads(2);
        let recurrent = ["mamba2", "rwkv7"].iter().any(|recurrent| name.contains(recurrent));
        let pool = (!recurrent).then_some(5 * 256);
        check(name, &Model::open(fixtures.join(name), &load).unwrap(), 60, pool);
    }
}

/// All of this machine, and AMX's by the emulator where the processor has none but could carry out the rest.
fn tables() -> Vec<&'static Kernels> {
    #[allow(unused_mut, reason = "on other machines nothing is added")]
    let mut tables: Vec<&Kernels> = Kernels::available().collect();
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        use candor_kernels::inside::x86::{Amx, Avx512Bf16};

        if let (None, Some(below)) = (Amx::detect(), Avx512Bf16::detect()) {
            crate::emulator::install();
            // SAFETY: the emulator does what the processor does not.
            tables.push(unsafe { Amx::emulated(below) }.kernels());
        }
    }
    tables
}

/// The same text alone on one thread, and on two beside others, in chunks of any size, on every table.
#[test]
fn bits_follow_from_roles() {
    let Some(fixtures) = fixtures() else { return };
    for kernels in tables() {
        let emulated = kernels.name == "amx" && Kernels::named("amx").is_err();
        for name in ["quant-llama-wide256-Q4_K_M", "quant-llama-wide256-Q6_K", "quant-llama-F16", "qwen3moe"] {
            let path = fixtures.join("arch").join(name).join("model.gguf");
            let load = LoadOptions::default().kernels(kernels);
            let [one, two] = [1, 2].map(|threads| Model::open(&path, &load.clone().threads(threads)).unwrap());
            let (length, companies, chunks): (usize, &[usize], &[usize]) = match emulated {
                true => (70, &[1, 7], &[7, 64]),
                false => (150, &[0, 1, 7, 40], &[1, 7, 64, 150]),
            };
            let prompt: Vec<u32> = (0..length as u32).map(|i| (3 + i * 7) % one.config().vocab as u32).collect();
            let mut alone = one.session(&SessionOptions::default().context(256)).unwrap();
            let bits = |logits: &[f32]| -> Vec<u32> { logits.iter().map(|x| x.to_bits()).collect() };
            alone.evaluate(&prompt).unwrap();
            let read = bits(alone.logits());
            alone.decode(9).unwrap();
            let written = bits(alone.logits());
            for &others in companies {
                for &chunk in chunks {
                    let [got_read, got_written] = beside(&two, &prompt, others, chunk);
                    let case = format!("{}, {name}: {others} others, chunks of {chunk}", kernels.name);
                    assert!(bits(&got_read) == read, "{case}, read");
                    assert!(bits(&got_written) == written, "{case}, written");
                }
            }
        }
    }
}

/// The logits behind a prompt that is read in chunks, and behind token 9 that is written after it, beside other sequences.
fn beside(model: &Model, prompt: &[u32], others: usize, chunk: usize) -> [Vec<f32>; 2] {
    let mut options = BatchOptions::default();
    (options.sequences, options.context, options.rows) = (1 + others, 256, 512);
    let mut batch = model.batch(&options).unwrap();
    let id = batch.add().unwrap();
    let company: Vec<SequenceId> = (0..others).map(|_| batch.add().unwrap()).collect();
    let mut steps: Vec<(&[u32], Role)> = prompt.chunks(chunk).map(|c| (c, Role::Prefill)).collect();
    steps.push((&[9], Role::Decode));
    let last = steps.len() - 2;
    let mut logits = Vec::new();
    for (number, (tokens, role)) in steps.into_iter().enumerate() {
        // Half of the company reads, half of it writes, not in every step.
        for (other, &company) in company.iter().enumerate().filter(|_| number % 16 == 0 || number >= last) {
            let role = if other % 2 == 0 { Role::Prefill } else { Role::Decode };
            let tokens = &prompt[other..][..1 + other % 5];
            batch.push(company, tokens, role, Outputs::Last(Want::Logits)).unwrap();
        }
        batch.push(id, tokens, role, Outputs::Last(Want::Logits)).unwrap();
        batch.step().unwrap();
        if number >= last {
            let answer = batch.answers().find(|answer| answer.sequence == id).unwrap();
            let Value::Logits(values) = answer.value else { panic!("logits") };
            logits.push(values.to_vec());
        }
    }
    logits.try_into().unwrap()
}

/// What is known of roles is known from the outside: kernels of prompts have other bits than those of decoding.
#[test]
fn a_format_with_two_arithmetics_has_both() {
    let Some(fixtures) = fixtures() else { return };
    let path = fixtures.join("arch/quant-llama-wide256-Q4_K_M/model.gguf");
    let bits = |batching, role| {
        let model = Model::open(&path, &LoadOptions::default().threads(1).batching(batching)).unwrap();
        let mut batch = model.batch(&BatchOptions::default()).unwrap();
        let id = batch.add().unwrap();
        batch.push(id, &[1, 5, 6, 7], role, Outputs::Last(Want::Logits)).unwrap();
        batch.step().unwrap();
        let Value::Logits(values) = batch.answers().next().unwrap().value else { panic!("logits") };
        let bits: Vec<u32> = values.iter().map(|x| x.to_bits()).collect();
        (bits, model.is_batch_invariant())
    };
    let (written, _) = bits(Batching::ByRole, Role::Decode);
    assert!(bits(Batching::Invariant, Role::Prefill).0 == written, "one arithmetic");
    assert!(bits(Batching::Invariant, Role::Decode).0 == written);
    // Few rows are multiplied by the kernels of rows there, whatever they are for.
    assert!(bits(Batching::Fastest, Role::Prefill).0 == written);
    let (read, invariant) = bits(Batching::ByRole, Role::Prefill);
    assert!(invariant);
    let scalar = Kernels::best().name == "scalar";
    assert!(scalar || read != written, "kernels for prompts");
}

#[test]
fn what_does_not_fit_is_an_error_and_changes_nothing() {
    let model = tiny(&Default::default());
    let mut options = BatchOptions::default();
    (options.sequences, options.context, options.rows, options.outputs) = (2, 24, 8, 2);
    let mut batch = model.batch(&options).unwrap();
    let (a, b) = (batch.add().unwrap(), batch.add().unwrap());
    assert!(matches!(batch.add(), Err(Error::SequencesFull { most: 2 })));
    batch.push(a, &[1, 2, 3], Role::Prefill, Outputs::None).unwrap();
    let last = Outputs::Last(Want::Logits);
    assert!(matches!(batch.push(a, &[4], Role::Prefill, last), Err(Error::SequenceInStep)));
    let many = batch.push(b, &[1; 6], Role::Prefill, last);
    assert!(matches!(many, Err(Error::StepTooLong { rows: 9, most: 8 })), "{many:?}");
    let wanted = batch.push(b, &[1; 3], Role::Prefill, Outputs::Each(Want::Best(1)));
    assert!(matches!(wanted, Err(Error::StepTooLong { rows: 3, most: 2 })), "{wanted:?}");
    let vocab = model.config().vocab;
    let token = batch.push(b, &[vocab as u32], Role::Prefill, last);
    assert!(matches!(token, Err(Error::Token { .. })));
    batch.push(b, &[5], Role::Decode, last).unwrap();
    batch.step().unwrap();
    assert_eq!((batch.tokens(a).unwrap(), batch.tokens(b).unwrap()), (&[1, 2, 3][..], &[5][..]));
    assert_eq!(batch.answers().len(), 1);
    batch.remove(a).unwrap();
    let again = batch.add().unwrap();
    assert!(matches!(batch.push(a, &[1], Role::Decode, last), Err(Error::NoSuchSequence)), "not the one in its place");
    assert!(batch.tokens(again).unwrap().is_empty());
    // A step of nothing is one.
    batch.step().unwrap();
    assert_eq!(batch.answers().len(), 0);
}
