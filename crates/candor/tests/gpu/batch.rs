//! Steps of any mixture of sequences on a GPU: each has the bits that it has alone there.

use candor::{Device, Error, Gguf, LoadOptions, Model, Verify};
use candor_gpu::{AdapterChoice, GpuOptions, adapters};
use candor_testing::{Tiny, fixtures, has_gpu};

use crate::company::{MODELS, check};

#[test]
fn sequences_in_any_company_have_the_bits_that_they_have_alone() {
    if !has_gpu(adapters().len()) {
        return;
    }
    let gpu = GpuOptions::default().adapter(AdapterChoice::Index(0));
    let load = LoadOptions::default().device(Device::Gpu).gpu(gpu).verify(Verify::Off);
    let tiny = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
    check("tiny", &Model::from_gguf(tiny, &load).unwrap(), 20, Some(2 * 256));
    let Some(fixtures) = fixtures() else { return };
    let mut checked = 0;
    for name in MODELS {
        match Model::open(fixtures.join(name), &load) {
            Ok(model) => check(name, &model, 8, None),
            Err(Error::MissingOnGpu { operations }) => {
                eprintln!("{name}: not on GPUs, which have no {}", operations.join(", "));
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        }
        checked += 1;
    }
    assert!(checked >= 5, "{checked} of {}", MODELS.len());
}
