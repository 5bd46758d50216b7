//! `cargo xtask semver`: the public faces of the published crates against those of the last release.

use std::error::Error;
use std::process::Command;

use crate::command::{cargo, root};

/// Compares with a commit or, without one, with the newest tag `v*`; before the first release there is nothing to compare.
pub fn run(baseline: Option<&str>) -> Result<(), Box<dyn Error>> {
    let Some(baseline) = baseline.map(str::to_owned).or_else(last_release) else {
        eprintln!(
            "semver: no tag v* yet, so no release to compare with; `cargo xtask semver REV` compares with a commit"
        );
        return Ok(());
    };
    cargo(&["semver-checks", "--workspace", "--baseline-rev", &baseline], &[]).map_err(|error| {
        format!("{error}\nhint: cargo install cargo-semver-checks --locked, if that is missing").into()
    })
}

fn last_release() -> Option<String> {
    let tag = ["describe", "--tags", "--abbrev=0", "--match", "v*"];
    let found = Command::new("git").args(tag).current_dir(root()).output().ok()?;
    let tag = String::from_utf8(found.stdout).ok()?;
    found.status.success().then(|| tag.trim().to_owned())
}
