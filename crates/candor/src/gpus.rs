//! The GPUs of this machine, and the choice among them.

use crate::{DeviceInfo, Error};

/// All GPUs, emulations included.
pub(crate) fn all() -> Vec<DeviceInfo> {
    Vec::new()
}

/// Those with these names, or with these words in their descriptions; all that are no emulations where none is named.
///
/// # Errors
/// If a name fits none.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<DeviceInfo>, Error> {
    let all = all();
    let named = names.iter().map(|name| {
        let found = all.iter().find(|gpu| is_called(gpu, name)).cloned();
        found.ok_or_else(|| Error::NoSuchDevice { name: name.clone(), known: known(&all) })
    });
    named.collect()
}

fn is_called(gpu: &DeviceInfo, name: &str) -> bool {
    let contains = || gpu.description.to_lowercase().contains(&name.to_lowercase());
    gpu.name == name || (!name.is_empty() && contains())
}

fn known(gpus: &[DeviceInfo]) -> Vec<String> {
    let words = ["auto", "cpu", "gpu", "reference"].map(str::to_owned);
    words.into_iter().chain(gpus.iter().map(|gpu| gpu.name.clone())).collect()
}
