//! What follows from verdicts: which GPUs are taken, and how.

use candor_gguf::Gguf;

use super::{Trust, Verdict, Verify, check::verdicts};
use crate::{
    Device, DeviceInfo, Error, LoadOptions, Placement,
    gpus::{Found, Kind},
};

/// Verifies the GPUs that a model is to be loaded on and leaves those that compute rightly.
///
/// Where one does not, or fails, all are tried once more without cooperative matrices, which drivers are likelier to have wrong
/// than all else. If that goes well, the options are without them from then on.
///
/// # Errors
/// If a GPU that was asked for computes wrongly, cannot be opened, or cannot hold a part of the model.
pub(crate) async fn settle(gguf: &Gguf, options: &mut LoadOptions, gpus: &mut Vec<Found>) -> Result<Trust, Error> {
    // Parts are the first one's.
    let count = if matches!(options.placement, Placement::Parts(_)) { gpus.len().min(1) } else { gpus.len() };
    if count == 0 || options.verify == Verify::Off {
        return Ok(Trust::default());
    }
    let is_right = |found: &Result<Vec<Verdict>, Error>| {
        found.as_ref().is_ok_and(|found| found.iter().all(|verdict| verdict.failure.is_none()))
    };
    let mut trust = Trust::default();
    let mut found = verdicts(gguf, options, &gpus[..count]).await;
    if !is_right(&found)
        && let Some(without) = without_cooperative(options, &gpus[..count])
    {
        let again = verdicts(gguf, &without, &gpus[..count]).await;
        if is_right(&again) {
            (found, trust.without_cooperative) = (again, true);
            *options = without;
        }
    }
    match found {
        Ok(found) => {
            choose(&found, options, gpus)?;
            trust.verdicts = found;
        }
        Err(error) if may_do_without(options) => {
            gpus.clear();
            trust.unverified = Some(error.to_string());
        }
        Err(error) => return Err(error),
    }
    Ok(trust)
}

/// The same but that GPUs multiply without cooperative matrices; `None` where none of them would take any.
fn without_cooperative(options: &LoadOptions, gpus: &[Found]) -> Option<LoadOptions> {
    let takes = match options.gpu.variant {
        Some(variant) => variant.cooperative.is_some(),
        None => gpus.iter().any(|gpu| gpu.cooperative && gpu.kind != Kind::Emulation),
    };
    let gpu = options.gpu.clone().cooperative(false);
    (takes && options.gpu.cooperative && !options.gpu.exact).then(|| options.clone().gpu(gpu))
}

/// Whether the processor, or other GPUs, may take the place of a GPU.
fn may_do_without(options: &LoadOptions) -> bool {
    options.device == Device::Auto && options.placement == Placement::Planned
}

/// Leaves out the GPUs that compute wrongly.
///
/// # Errors
/// If one of them was asked for.
fn choose(verdicts: &[Verdict], options: &mut LoadOptions, gpus: &mut Vec<Found>) -> Result<(), Error> {
    for Verdict { device, failure, .. } in verdicts {
        let Some(failure) = failure.clone() else { continue };
        if !may_do_without(options) {
            let DeviceInfo { name, description: device, driver, .. } = device.clone();
            return Err(Error::Untrusted { name, device, driver, failure });
        }
        // Shares are given for all of them in their order.
        options.offload.split.clear();
        gpus.retain(|gpu| gpu.info.name != device.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::Source;

    fn gpu(index: usize) -> Found {
        let (name, description) = (format!("gpu{index}"), "Card".to_owned());
        let driver = "discrete, vulkan, 1.2".to_owned();
        let (total_bytes, free_bytes, budget_bytes) = (None, None, None);
        let info = DeviceInfo { name, description, driver, total_bytes, free_bytes, budget_bytes };
        Found { index, info, kind: Kind::Discrete, backend: "vulkan".to_owned(), cooperative: false }
    }

    #[test]
    fn a_gpu_that_computes_wrongly_is_not_taken() {
        let choose = |device, placement: Placement, wrong: &[bool]| {
            let mut gpus: Vec<Found> = (0..wrong.len()).map(gpu).collect();
            let mut options = LoadOptions::default().device(device).placement(placement);
            options.offload.split = vec![1.0; wrong.len()];
            let verdict = |(gpu, wrong): (&Found, &bool)| Verdict {
                device: gpu.info.clone(),
                failure: wrong.then(|| "rope: error 1, at most 2".to_owned()),
                source: Source::Verified,
            };
            let verdicts: Vec<Verdict> = gpus.iter().zip(wrong).map(verdict).collect();
            choose(&verdicts, &mut options, &mut gpus)?;
            let left: Vec<usize> = gpus.iter().map(|gpu| gpu.index).collect();
            Ok::<_, Error>((left, options.offload.split.len()))
        };
        for device in [Device::Auto, Device::Gpu] {
            assert_eq!(choose(device, Placement::Planned, &[false, false]).unwrap(), (vec![0, 1], 2));
        }
        assert_eq!(choose(Device::Auto, Placement::Planned, &[false, true, false]).unwrap(), (vec![0, 2], 0));
        assert_eq!(choose(Device::Auto, Placement::Planned, &[true]).unwrap(), (vec![], 0));
        let parts = Placement::Parts(vec![(Device::Gpu, 0..1)]);
        for (device, placement) in [(Device::Gpu, Placement::Planned), (Device::Auto, parts)] {
            let error = choose(device, placement, &[false, true]).unwrap_err().to_string();
            let expected =
                "device gpu1: Card with driver discrete, vulkan, 1.2 computes wrongly: rope: error 1, at most 2";
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn only_what_takes_cooperative_matrices_goes_without() {
        let options = LoadOptions::default();
        let quick = Found { cooperative: true, ..gpu(0) };
        let emulated = Found { kind: Kind::Emulation, ..quick.clone() };
        assert_eq!(without_cooperative(&options, &[gpu(1), emulated]).map(|it| it.gpu.cooperative), None);
        let without = without_cooperative(&options, &[gpu(1), quick.clone()]).unwrap();
        assert!(!without.gpu.cooperative);
        assert!(without_cooperative(&without, &[quick]).is_none());
    }
}
