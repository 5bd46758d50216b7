//! The GPU backend against the reference, on the first adapter there is: a software one (lavapipe) will do. Skipped with
//! a printed reason without any.

mod attention;
mod compiled;
mod counters;
mod experts;
mod faults;
mod fusions;
mod matrices;
mod products;
mod recording;
mod recurrent;
mod roles;
mod rounded;
mod rows;
mod top;

use std::io::Write;
use std::sync::{Mutex, Once};

use candor_gpu::{AdapterChoice, Cooperative, Gpu, GpuOptions, Variant, adapters};
use candor_testing::backend::{bits, decoding};
use candor_testing::has_gpu;

/// Options for the first adapter.
fn options() -> Option<GpuOptions> {
    if !has_gpu(adapters().len()) {
        return None;
    }
    // A step at once, on hardware too, so that counts are the same everywhere.
    Some(GpuOptions::default().adapter(AdapterChoice::Index(0)).ahead(u32::MAX))
}

/// A device for every variant that the adapter has; they stay open until the process ends, with their shaders.
fn backends() -> Vec<(String, Gpu)> {
    let Some(options) = options() else { return Vec::new() };
    static OPEN: Mutex<Vec<Gpu>> = Mutex::new(Vec::new());
    let adapter = &adapters()[0];
    let choices = |has: bool| if has { &[false, true][..] } else { &[false] };
    let mut opened = Vec::new();
    let mut variants = Vec::new();
    for &int8_dot in choices(true) {
        for &f16 in choices(adapter.f16) {
            for &subgroups in choices(adapter.subgroups) {
                variants.push(Variant { subgroups, int8_dot, f16, cooperative: None });
            }
        }
    }
    // All that adapters with cooperative matrices choose, and nothing else.
    if let Some(cooperative) = cooperative() {
        let all = |has| Variant { subgroups: has, int8_dot: has, f16: has, cooperative: Some(cooperative) };
        variants.extend([false, true].map(all));
    }
    // One after the other, so that all tests share them: a driver has no room for hundreds.
    let mut open = OPEN.lock().expect("adapters open");
    for variant in variants {
        let options = options.clone().variant(variant);
        opened.push((format!("{variant:?}"), Gpu::new(&options).expect("the adapter opens")));
    }
    open.extend(opened.iter().map(|(_, gpu)| gpu.clone()));
    opened
}

/// Cooperative matrices of the first adapter; said once where it has none.
fn cooperative() -> Option<Cooperative> {
    static SAID: Once = Once::new();
    let cooperative = adapters().first()?.cooperative;
    if cooperative.is_none() {
        SAID.call_once(|| {
            let _ = writeln!(std::io::stderr(), "skipped: cooperative matrices, which the adapter has not");
        });
    }
    cooperative
}

/// Those that differ where no matrix is: with subgroups and without.
fn vector_backends() -> Vec<(String, Gpu)> {
    let plain = |gpu: &Gpu| !gpu.variant().int8_dot && !gpu.variant().f16 && gpu.variant().cooperative.is_none();
    backends().into_iter().filter(|(_, gpu)| plain(gpu)).collect()
}

/// Whether a product on it has shaders that no other of [`backends`] has: those of rows that decode, which are few,
/// have nothing to do with halves, those of prompts nothing with subgroups.
fn differs(gpu: &Gpu, few: bool) -> bool {
    let Variant { subgroups, f16, cooperative, .. } = gpu.variant();
    cooperative.is_some() || !(if few { f16 } else { subgroups })
}

/// Runs something with rows that decode, or with rows of prompts.
fn of_kind<T>(decodes: bool, run: impl FnOnce() -> T) -> T {
    if decodes { decoding(run) } else { run() }
}

/// The values, after which the device must be well.
fn sound(gpu: &mut Gpu) {
    use candor_ops::Prims;
    gpu.finish().expect("no fault");
}

#[test]
fn clones_begin_with_recordings_of_their_own() {
    use candor_ops::Prims;
    use candor_testing::backend::{Random, read, upload};
    for (name, gpu) in backends() {
        let values = Random(1).floats(300);
        std::thread::scope(|scope| {
            for i in 0..3 {
                let (mut gpu, values, name) = (gpu.clone(), &values, &name);
                scope.spawn(move || {
                    for _ in 0..20 {
                        let mut x = upload(&mut gpu, 100, values);
                        let y = upload(&mut gpu, 100, values);
                        gpu.add(&mut x, &y);
                        let doubled: Vec<f32> = values.iter().map(|value| value + value).collect();
                        assert_eq!(bits(&read(&mut gpu, &x)), bits(&doubled), "{name}, clone {i}");
                    }
                    sound(&mut gpu);
                });
            }
        });
    }
}
