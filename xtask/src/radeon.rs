//! `cargo xtask radeon`: what Mesa's driver makes of the shaders, for a family of Radeon GPUs of which none need be there.

use std::env;
use std::error::Error;

use crate::command::cargo;

/// Where Linux keeps what tells of the driver.
const DRIVER: &str = "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json";

/// Prints a table of the kernels whose name holds `kernel`; registers that spill and memory for them are errors.
pub fn run(family: &str, kernel: &str) -> Result<(), Box<dyn Error>> {
    // The loader's own variable may name another Mesa.
    let driver = env::var("VK_DRIVER_FILES").unwrap_or_else(|_| DRIVER.to_owned());
    let test = ["kernel::radeon::table", "--exact", "--ignored", "--nocapture"];
    let variables = [
        ("RADV_FORCE_FAMILY", family),
        ("VK_DRIVER_FILES", &driver),
        ("VK_ICD_FILENAMES", &driver),
        ("MESA_SHADER_CACHE_DISABLE", "1"),
        ("CANDOR_KERNELS", kernel),
    ];
    cargo(&[&["test", "-q", "-p", "candor-gpu", "--lib", "--"], &test[..]].concat(), &variables)
}
