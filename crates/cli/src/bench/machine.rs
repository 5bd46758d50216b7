//! The processor's name.

use std::{env, fs, process::Command};

/// As the system tells it; `unknown` where it does not.
pub fn processor() -> String {
    let linux = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| of_cpuinfo(&text));
    let board = || fs::read_to_string("/proc/device-tree/model").ok().map(|text| text.replace('\0', ""));
    linux.or_else(board).or_else(of_mac).or_else(|| env::var("PROCESSOR_IDENTIFIER").ok()).unwrap_or("unknown".into())
}

/// The name in Linux's `/proc/cpuinfo`; boards with ARM processors often give none there.
fn of_cpuinfo(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    let (_, name) = line.split_once(':')?;
    Some(name.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn of_mac() -> Option<String> {
    if !cfg!(target_os = "macos") {
        return None;
    }
    let output = Command::new("sysctl").args(["-n", "machdep.cpu.brand_string"]).output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_one_of_the_first_processor() {
        let text = "processor\t: 0\nmodel name\t: Some  CPU @ 2.0GHz\nflags\t: a b\n\nmodel name\t: Other\n";
        assert_eq!(of_cpuinfo(text).as_deref(), Some("Some CPU @ 2.0GHz"));
        assert_eq!(of_cpuinfo("processor : 0\n"), None);
    }
}
