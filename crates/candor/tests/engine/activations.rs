//! f32 activations: how near the processor then comes to exact logits.

use std::path::PathBuf;

use candor::{Activations, Device, Format, Gguf, KvFormat, LoadOptions, Model, Role, Rounding, SessionOptions};
use candor_kernels::Kernels;
use candor_testing::{Tiny, fixtures, nmse};

const TOKENS: [u32; 24] = [
    1, 410, 13, 441, 416, 331, 407, 261, 378, 383, 286, 261, 376, 268, 414, 422, 395, 368, 302, 426, 368, 302, 401, 396,
];

/// Models whose weights are quantized.
fn files() -> Vec<PathBuf> {
    let Some(fixtures) = fixtures() else { return Vec::new() };
    let file = |name: &str| fixtures.join(format!("models/stories260K-wide256-{name}.gguf"));
    ["Q4_K_M", "Q2_K", "Q3_K_M", "Q5_K_M", "Q6_K", "Q8_0", "IQ4_XS"].map(file).to_vec()
}

fn load(options: LoadOptions) -> LoadOptions {
    options.threads(2)
}

/// Logits after each token: of a prompt that is read at once, or of tokens that decode one by one.
fn logits(model: &Model, role: Role) -> Vec<f32> {
    let cache = SessionOptions::default().context(64).keys(KvFormat::F32).values(KvFormat::F32);
    let mut session = model.session(&cache).unwrap();
    let mut all = Vec::new();
    match role {
        Role::Prefill => session.evaluate_each(&TOKENS, |_, logits| all.extend_from_slice(logits)).unwrap(),
        Role::Decode => {
            for token in TOKENS {
                session.decode(token).unwrap();
                all.extend_from_slice(session.logits());
            }
        }
    }
    all
}

/// 1e-9 is thirty thousand times less than rounding to 8 bits costs.
#[test]
fn logits_are_those_of_the_formulas() {
    for path in files() {
        let model = |options| Model::open(&path, &load(options)).unwrap();
        let exact = model(LoadOptions::default().device(Device::Reference));
        for role in [Role::Prefill, Role::Decode] {
            let exact = logits(&exact, role);
            for table in Kernels::available() {
                let case = format!("{}, {role:?}, {}", path.display(), table.name);
                let options = LoadOptions::default().device(Device::Cpu).kernels(table);
                let error = nmse(&logits(&model(options.clone().activations(Activations::F32)), role), &exact);
                assert!(error < 1e-9, "{case}: {error:e}");
                let rounded = nmse(&logits(&model(options), role), &exact);
                assert!(rounded > 1e-6, "{case}: {rounded:e} with rounded activations");
            }
        }
    }
}

#[test]
fn no_format_is_rounded_in_any_role() {
    let gguf = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
    for table in Kernels::available() {
        let options = LoadOptions::default().device(Device::Cpu).kernels(table);
        let model = Model::from_gguf(gguf.clone(), &options.clone().activations(Activations::F32)).unwrap();
        assert_eq!(model.activations(), Activations::F32);
        assert!(model.device_label().contains("-f32 kernels"), "{}", model.device_label());
        for &format in Format::ALL {
            for role in [Role::Prefill, Role::Decode] {
                assert_eq!(model.rounding(format, role), Some(Rounding::Exact), "{} {format} {role:?}", table.name);
            }
        }
        let usual = Model::from_gguf(gguf.clone(), &options).unwrap();
        assert_ne!(usual.rounding(Format::Q4K, Role::Decode), Some(Rounding::Exact), "{}", table.name);
    }
}
