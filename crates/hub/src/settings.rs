//! Where models lie and come from, and how they are fetched.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Where Hugging Face is.
const ENDPOINT: &str = "https://huggingface.co";

/// Where models lie and come from, and how they are fetched.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Where Hugging Face is, without a slash at its end (`HF_ENDPOINT`).
    pub endpoint: String,
    /// What it knows the user by (`HF_TOKEN`, or the file that `huggingface_hub` writes). It is sent to `endpoint` alone.
    pub token: Option<String>,
    /// The cache that is shared with `huggingface_hub` (`HF_HUB_CACHE`, or `hub` in `HF_HOME`).
    pub hub: Option<PathBuf>,
    /// Ollama's store (`OLLAMA_MODELS`).
    pub ollama: Option<PathBuf>,
    /// Files that came from addresses.
    pub files: Option<PathBuf>,
    /// Fetch nothing (`HF_HUB_OFFLINE`).
    pub offline: bool,
    /// Ranges of a file that come at the same time.
    pub connections: usize,
    /// Bytes of a piece: what is fetched again at most for each connection when the program is killed.
    pub piece: u64,
    /// A connection is made again where nothing came for so long.
    pub stall: Duration,
    /// How often in a row to ask again where nothing comes.
    pub tries: u32,
    /// The time before the first of them; it doubles from then on.
    pub wait: Duration,
}

impl Settings {
    /// By the variables of the environment; `files` is for what comes from addresses.
    pub fn of_environment(files: Option<PathBuf>) -> Settings {
        Settings::of(|name| env::var(name).ok().filter(|value| !value.is_empty()), env::home_dir(), files)
    }

    fn of(variable: impl Fn(&str) -> Option<String>, home: Option<PathBuf>, files: Option<PathBuf>) -> Settings {
        let folder = |name: &str| variable(name).map(|path| at_home(&path, home.as_deref()));
        let cache = folder("XDG_CACHE_HOME").or_else(|| home.as_ref().map(|home| home.join(".cache")));
        let own = folder("HF_HOME").or_else(|| cache.map(|cache| cache.join("huggingface")));
        let written = || {
            let path = folder("HF_TOKEN_PATH").or_else(|| own.as_ref().map(|own| own.join("token")))?;
            fs::read_to_string(path).ok()
        };
        let token = variable("HF_TOKEN").or_else(|| variable("HUGGING_FACE_HUB_TOKEN")).or_else(written);
        let token = token.map(|token| token.split_whitespace().collect::<String>()).filter(|token| !token.is_empty());
        let hub = folder("HF_HUB_CACHE").or_else(|| folder("HUGGINGFACE_HUB_CACHE"));
        let is_on = |text: String| ["1", "ON", "YES", "TRUE"].contains(&text.to_uppercase().as_str());
        Settings {
            endpoint: variable("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned()).trim_end_matches('/').to_owned(),
            token,
            hub: hub.or_else(|| own.map(|own| own.join("hub"))),
            ollama: folder("OLLAMA_MODELS").or_else(|| home.as_ref().map(|home| home.join(".ollama").join("models"))),
            files,
            offline: variable("HF_HUB_OFFLINE").or_else(|| variable("TRANSFORMERS_OFFLINE")).is_some_and(is_on),
            connections: 4,
            piece: 8 << 20,
            stall: Duration::from_secs(20),
            tries: 6,
            wait: Duration::from_millis(500),
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the token.
        f.debug_struct("Settings")
            .field("endpoint", &self.endpoint)
            .field("hub", &self.hub)
            .field("ollama", &self.ollama)
            .field("files", &self.files)
            .field("offline", &self.offline)
            .finish_non_exhaustive()
    }
}

/// A path that may begin with `~`, as the other programs read it.
fn at_home(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Settings {
        let variable =
            |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        Settings::of(variable, Some("/home/u".into()), None)
    }

    #[test]
    fn variables_say_where_things_are() {
        let plain = of(&[]);
        assert_eq!(plain.endpoint, "https://huggingface.co");
        assert_eq!(plain.hub, Some("/home/u/.cache/huggingface/hub".into()));
        assert_eq!(plain.ollama, Some("/home/u/.ollama/models".into()));
        assert!(!plain.offline && plain.token.is_none());
        let set = of(&[
            ("HF_ENDPOINT", "http://h.example/"),
            ("HF_HOME", "~/hf"),
            ("HF_TOKEN", " hf_x\n"),
            ("HF_HUB_OFFLINE", "yes"),
            ("OLLAMA_MODELS", "/o"),
        ]);
        assert_eq!((set.endpoint.as_str(), set.token.as_deref()), ("http://h.example", Some("hf_x")));
        assert_eq!((set.hub, set.ollama), (Some("/home/u/hf/hub".into()), Some("/o".into())));
        assert!(set.offline);
        assert_eq!(of(&[("HF_HOME", "/a"), ("HF_HUB_CACHE", "/b")]).hub, Some("/b".into()));
        assert_eq!(of(&[("XDG_CACHE_HOME", "/x")]).hub, Some("/x/huggingface/hub".into()));
    }

    #[test]
    fn the_file_of_a_token_is_read_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("token"), "hf_secret\n").unwrap();
        let settings = of(&[("HF_HOME", folder.path().to_str().unwrap())]);
        assert_eq!(settings.token.as_deref(), Some("hf_secret"));
        assert!(!format!("{settings:?}").contains("hf_secret"));
    }
}
