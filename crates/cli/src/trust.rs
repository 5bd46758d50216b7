//! A GPU is used only if its driver computes rightly: asked once, remembered in the cache folder of the platform.

use candor::{Device, LoadOptions};
use candor_inspect::trust::{self, Trust};

use crate::{config::folders, errors::Error, open::Source, output::say};

/// The options with none but GPUs that compute rightly. Where that leaves none, `auto` takes the processor.
///
/// # Errors
/// If a GPU that was asked for computes wrongly, or does not run.
pub fn settle(source: &Source, mut options: LoadOptions) -> Result<LoadOptions, Error> {
    if !matches!(options.device, Device::Auto | Device::Gpu) {
        return Ok(options);
    }
    let gguf = source.quietly()?;
    if !candor::missing_on_gpus(&gguf, &options.adapters)?.is_empty() {
        // Whoever loads the model says what follows from it.
        return Ok(options);
    }
    let folder = folders().map(|folders| folders.cache_dir().join("gpus"));
    let (found, without) = match trust::settled(&gguf, &mut options, folder.as_deref()) {
        Ok(found) => found,
        Err(error) if options.device == Device::Auto => {
            say!("warning: {error}: using the processor");
            return Ok(LoadOptions { device: Device::Cpu, ..options });
        }
        Err(error) => return Err(error.into()),
    };
    if without {
        say!("warning: a GPU computes wrongly with cooperative matrices and rightly without: prompts take longer");
    }
    choose(found, options)
}

fn choose(found: Vec<Trust>, mut options: LoadOptions) -> Result<LoadOptions, Error> {
    if found.is_empty() {
        // That there is no GPU is said by whoever loads.
        return Ok(options);
    }
    let (wrong, right): (Vec<Trust>, Vec<Trust>) = found.into_iter().partition(|trust| trust.failure.is_some());
    let all_wrong = right.is_empty();
    if !wrong.is_empty() {
        // Shares are given for all of them in their order.
        options.offload.split.clear();
    }
    for Trust { device, failure, .. } in wrong {
        let (name, driver, failure) = (device.name, device.driver, failure.unwrap_or_default());
        if options.device == Device::Gpu {
            return Err(Error::Untrusted { name, device: device.description, driver, failure });
        }
        let instead = if all_wrong { "using the processor" } else { "using the others" };
        say!("warning: {name} ({}, {driver}) computes wrongly, {instead}: {failure}", device.description);
    }
    match all_wrong {
        true => options.device = Device::Cpu,
        false => options.offload.names = right.into_iter().map(|trust| trust.device.name).collect(),
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use candor::DeviceInfo;
    use candor_inspect::trust::Source;

    use super::*;

    fn trust(name: &str, failure: Option<&str>) -> Trust {
        let (description, driver) = ("Card".to_owned(), "discrete, vulkan, 1.2".to_owned());
        let (total_bytes, free_bytes, budget_bytes) = (None, None, None);
        let device = DeviceInfo { name: name.to_owned(), description, driver, total_bytes, free_bytes, budget_bytes };
        Trust { device, failure: failure.map(str::to_owned), source: Source::Verified }
    }

    #[test]
    fn a_gpu_that_computes_wrongly_is_not_taken() {
        let choose = |device, found: &[Trust]| {
            let options = choose(found.to_vec(), LoadOptions { device, ..LoadOptions::default() })?;
            Ok::<_, Error>((options.device, options.offload.names))
        };
        let (right, wrong) = (trust("gpu0", None), trust("gpu1", Some("rope: error 1, at most 2")));
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(choose(Device::Auto, std::slice::from_ref(&right)).unwrap(), (Device::Auto, names(&["gpu0"])));
        assert_eq!(choose(Device::Gpu, std::slice::from_ref(&right)).unwrap(), (Device::Gpu, names(&["gpu0"])));
        assert_eq!(choose(Device::Auto, &[right.clone(), wrong.clone()]).unwrap(), (Device::Auto, names(&["gpu0"])));
        assert_eq!(choose(Device::Auto, std::slice::from_ref(&wrong)).unwrap(), (Device::Cpu, names(&[])));
        // A GPU that is asked for and not there is no reason to take the processor without a word.
        assert_eq!(choose(Device::Gpu, &[]).unwrap(), (Device::Gpu, names(&[])));
        let error = choose(Device::Gpu, &[right, wrong]).unwrap_err();
        let expected = "device gpu1: Card with driver discrete, vulkan, 1.2 computes wrongly: rope: error 1, at most 2";
        assert_eq!(error.to_string(), expected);
        assert!(error.hint().unwrap().contains("--no-verify"));
    }
}
