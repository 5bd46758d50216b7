//! Ollama's store, and its registry.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    Pulled, disk,
    error::Error,
    fetch::{self, Wanted, Watch},
    http::{Http, Request},
    name::Name,
    settings::Settings,
    url,
};

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const MODEL: &str = "application/vnd.ollama.image.model";
/// Where files lie until they are whole: Ollama's server removes from `blobs` what it does not know.
const UNFINISHED: &str = ".candor";

/// A file that a manifest names.
pub struct Layer {
    pub kind: String,
    /// Its SHA-256.
    pub digest: String,
    pub bytes: u64,
}

/// Where the manifest of a name is.
pub fn manifest_path(store: &Path, host: &str, path: &str, tag: &str) -> PathBuf {
    // A colon is not for names of files on Windows; Ollama has the same problem, and the same folder elsewhere.
    store.join("manifests").join(host).join(path).join(tag)
}

/// Where a file is, by its SHA-256.
pub fn blob_path(store: &Path, digest: &str) -> PathBuf {
    store.join("blobs").join(format!("sha256-{digest}"))
}

/// Where files lie until they are whole.
pub fn unfinished(store: &Path) -> PathBuf {
    store.join(UNFINISHED)
}

/// The files of a manifest; `None` of another text.
pub fn layers(manifest: &Value) -> Option<Vec<Layer>> {
    let layer = |value: &Value| {
        let digest = value["digest"].as_str()?.strip_prefix("sha256:")?;
        let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        let kind = value["mediaType"].as_str().unwrap_or_default().to_owned();
        is_digest.then_some(Layer { kind, digest: digest.to_ascii_lowercase(), bytes: value["size"].as_u64()? })
    };
    let layers = manifest["layers"].as_array()?.iter().map(layer).collect::<Option<Vec<_>>>()?;
    let config = match &manifest["config"] {
        Value::Null => None,
        config => Some(layer(config)?),
    };
    Some(layers.into_iter().chain(config).collect())
}

/// Reads a manifest of the store.
pub fn read(path: &Path) -> Option<Vec<Layer>> {
    layers(&serde_json::from_slice(&fs::read(path).ok()?).ok()?)
}

/// The file of a model among these.
pub fn model(layers: &[Layer]) -> Option<&Layer> {
    layers.iter().find(|layer| layer.kind == MODEL)
}

/// The file of a model that is in the store.
pub fn find(settings: &Settings, host: &str, path: &str, tag: &str) -> Option<PathBuf> {
    let store = settings.ollama.as_deref()?;
    let layers = read(&manifest_path(store, host, path, tag))?;
    let model = model(&layers)?;
    let blob = blob_path(store, &model.digest);
    (disk::length(&blob)? == model.bytes).then_some(blob)
}

/// Fetches what a name means into the store.
pub fn pull(settings: &Settings, host: &str, path: &str, tag: &str, watch: Watch<'_>) -> Result<Pulled, Error> {
    let store = settings.ollama.as_deref().ok_or(Error::NoHome)?;
    let name = Name::Ollama { host: host.to_owned(), path: path.to_owned(), tag: tag.to_owned() }.to_string();
    let http = Http::new(settings);
    let base = format!("{}://{host}/v2/{path}", scheme(host));
    let address = format!("{base}/manifests/{tag}");
    let ask = || {
        let request = Request { headers: &[("accept", MANIFEST)], ..Request::get(&address, &name) };
        let answer = http.send(&request)?;
        let host = url::host(&answer.url);
        Ok((host, answer.json()?))
    };
    let (host_of, manifest) = http.persist(&|| watch.is_over(), ask)?;
    let wrong = |problem: &str| Error::Answer { host: host_of.clone(), problem: problem.to_owned() };
    let layers = layers(&manifest).ok_or_else(|| wrong("its manifest names no files"))?;
    let model = model(&layers).ok_or_else(|| wrong("its manifest names no model in GGUF"))?;
    let blob = blob_path(store, &model.digest);
    let partials = unfinished(store);
    let want = |layer: &Layer| Wanted {
        model: name.clone(),
        name: format!("sha256-{}", layer.digest),
        url: format!("{base}/blobs/sha256:{}", layer.digest),
        token: None,
        bytes: layer.bytes,
        sha256: Some(layer.digest.clone()),
        validator: None,
        target: blob_path(store, &layer.digest),
        seal: None,
        partials: partials.clone(),
        stem: format!("sha256-{}", layer.digest),
        lock: partials.join(format!("sha256-{}.lock", layer.digest)),
    };
    let wanted: Vec<Wanted> = layers.iter().map(want).collect();
    let fetched = fetch::all(&http, settings, &wanted, watch)?;
    // Last: what it names is whole.
    let target = manifest_path(store, host, path, tag);
    let text = manifest.to_string();
    if fs::read_to_string(&target).ok().as_deref() != Some(&text) {
        disk::write_whole(&target, &text)?;
    }
    let mut files = vec![blob.clone()];
    files.extend(wanted.into_iter().map(|wanted| wanted.target).filter(|path| *path != blob));
    Ok(Pulled { model: blob, files, fetched })
}

/// A registry on this machine is asked without encryption, as Ollama's own tests do.
fn scheme(host: &str) -> &'static str {
    let name = host.split(':').next().unwrap_or(host);
    if matches!(name, "localhost" | "127.0.0.1") { "http" } else { "https" }
}
