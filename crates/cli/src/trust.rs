//! A GPU is used only if its driver computes rightly: asked once, remembered in the cache folder of the platform.

use candor::{Trust, Verify};

use crate::{config::folders, output::say};

/// Whether GPUs are verified, with the folder in which verdicts are remembered.
pub fn verify(no_verify: bool) -> Verify {
    match no_verify {
        true => Verify::Off,
        false => Verify::On { folder: folders().map(|folders| folders.cache_dir().join("gpus")) },
    }
}

/// Says which GPUs are used otherwise than usual, or not at all, and why.
pub fn warn(trust: &Trust) {
    if let Some(error) = &trust.unverified {
        say!("warning: {error}: using the processor");
    }
    if trust.without_cooperative {
        say!("warning: a GPU computes wrongly with cooperative matrices and rightly without: prompts take longer");
    }
    let all_wrong = trust.verdicts.iter().all(|verdict| verdict.failure.is_some());
    let instead = if all_wrong { "using the processor" } else { "using the others" };
    for verdict in &trust.verdicts {
        let (device, Some(failure)) = (&verdict.device, &verdict.failure) else { continue };
        let (name, description, driver) = (&device.name, &device.description, &device.driver);
        say!("warning: {name} ({description}, {driver}) computes wrongly, {instead}: {failure}");
    }
}
