//! Whether a file has what its architecture's files never lack.

use candor_gguf::Gguf;

use crate::{Error, arch::Architecture, config::Config};

/// Fails by the name of the first tensor that the architecture needs and the file lacks.
pub(crate) fn check(gguf: &Gguf, arch: &Architecture, config: &Config) -> Result<(), Error> {
    let has = |name: String| gguf.tensor(&name).is_some();
    let needs: Vec<_> = arch.needs.iter().copied().flatten().filter(|need| config.layers >= need.layers).collect();
    for place in (0..config.layers).map(|i| config.name(i, "")).chain([String::new()]) {
        let lacks = |tensor: &str, beside: &str| has(format!("{place}{beside}")) && !has(format!("{place}{tensor}"));
        if let Some(need) = needs.iter().find(|need| lacks(need.tensor, need.beside)) {
            return Err(Error::MissingTensor(format!("{place}{}", need.tensor)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ARCHITECTURES;

    #[test]
    fn only_large_command_rs_have_norms_of_queries_and_keys() {
        let row = ARCHITECTURES.iter().find(|row| row.name == "command-r").expect("a row");
        let needed = |layers| row.needs.iter().copied().flatten().filter(move |need| layers >= need.layers);
        assert_eq!(needed(40).count(), 0);
        assert!(needed(64).map(|need| need.tensor).eq(["attn_q_norm.weight", "attn_k_norm.weight"]));
    }
}
