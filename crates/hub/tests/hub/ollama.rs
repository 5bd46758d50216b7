//! Ollama's store and registry.

use std::fs;

use crate::*;

const MODEL: &str = "application/vnd.ollama.image.model";

fn manifest(layers: &[(&str, &[u8])]) -> String {
    let layer = |kind: &str, bytes: &[u8]| {
        format!("{{\"mediaType\":\"{kind}\",\"digest\":\"sha256:{}\",\"size\":{}}}", sha256(bytes), bytes.len())
    };
    let all: Vec<String> = layers.iter().map(|(kind, bytes)| layer(kind, bytes)).collect();
    let config = layer("application/vnd.docker.container.image.v1+json", b"{}");
    format!("{{\"schemaVersion\":2,\"config\":{config},\"layers\":[{}]}}", all.join(","))
}

/// A registry with one model, `u/m:t`, whose files lie on another server.
fn registry(model: &Arc<[u8]>) -> (Server, Server) {
    let text = manifest(&[(MODEL, model), ("application/vnd.ollama.image.license", b"free")]);
    let blobs: BTreeMap<String, Arc<[u8]>> = [model.clone(), b"free"[..].into(), b"{}"[..].into()]
        .into_iter()
        .map(|bytes| (format!("/{}", sha256(&bytes)), bytes))
        .collect();
    let cdn = Server::start(move |asked| match blobs.get(&asked.path) {
        Some(bytes) => Reply::file(asked, bytes, "\"e\""),
        None => Reply::status(404),
    });
    let place = cdn.url();
    let server = Server::start(move |asked| match asked.path.strip_prefix("/v2/u/m/") {
        Some("manifests/t") => Reply::text(&text),
        Some(blob) => match blob.strip_prefix("blobs/sha256:") {
            Some(digest) => Reply::status(307).with("location", format!("{place}/{digest}")),
            None => Reply::status(404),
        },
        None => Reply::status(404),
    });
    (server, cdn)
}

#[test]
fn a_model_comes_into_ollamas_store() {
    let folder = tempfile::tempdir().unwrap();
    let model = bytes(1, 9 * PIECE + 3);
    let (registry, cdn) = registry(&model);
    let settings = settings(folder.path(), "http://127.0.0.1:1");
    let text = format!("ollama:{}/u/m:t", registry.host());
    let pulled = pull(&settings, &text).unwrap();
    let store = folder.path().join("ollama");
    assert_eq!(pulled.model, store.join(format!("blobs/sha256-{}", sha256(&model))));
    assert_eq!(fs::read(&pulled.model).unwrap()[..], model[..]);
    assert_eq!(files(&store.join("blobs")).len(), 3, "the license and the settings, too");
    let kept = fs::read_to_string(store.join(format!("manifests/{}/u/m/t", registry.host()))).unwrap();
    assert!(kept.contains(&sha256(&model)));
    let hub = Hub::new(settings.clone());
    assert_eq!(hub.find(&name(&text)), Some(pulled.model));
    assert_eq!(pull(&settings, &text).unwrap().fetched, 0);
    assert_eq!(cdn.sent(), model.len() + 6);
    let error = pull(&settings, &text.replace(":t", ":other")).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[test]
fn a_store_that_ollama_filled_is_read_and_what_is_shared_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("ollama");
    let (one, two, license) = (bytes(1, 100), bytes(2, 200), bytes(3, 30));
    fs::create_dir_all(store.join("blobs")).unwrap();
    for file in [&one, &two, &license, &Arc::from(&b"{}"[..])] {
        fs::write(store.join(format!("blobs/sha256-{}", sha256(file))), file).unwrap();
    }
    for (path, model) in [("library/llama3.2/1b", &one), ("library/llama3.2/latest", &one), ("u/m/t", &two)] {
        let path = store.join("manifests/registry.ollama.ai").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, manifest(&[(MODEL, model), ("application/vnd.ollama.image.license", &license)])).unwrap();
    }
    let hub = Hub::new(settings(folder.path(), "http://127.0.0.1:1"));
    let list: Vec<(String, u64)> = hub.list().unwrap().into_iter().map(|entry| (entry.name, entry.bytes)).collect();
    let expected = [("ollama:llama3.2:1b", 100), ("ollama:llama3.2:latest", 100), ("ollama:u/m:t", 200)];
    assert_eq!(list, expected.map(|(name, bytes)| (name.to_owned(), bytes)));
    let blob = |file: &[u8]| store.join(format!("blobs/sha256-{}", sha256(file)));
    for text in ["llama3.2:1b", "llama3.2", "ollama:llama3.2:latest"] {
        assert_eq!(hub.named(text).unwrap(), Some(blob(&one)), "{text}");
    }
    assert_eq!(hub.find(&name("ollama:llama3.2")), Some(blob(&one)));
    assert_eq!(hub.named("llama3").unwrap(), None);
    assert_eq!(hub.remove("llama3.2:1b").unwrap(), 0, "another name needs all of it");
    assert_eq!(hub.remove("llama3.2").unwrap(), 100);
    assert!(!blob(&one).exists() && blob(&license).exists() && blob(&two).exists());
    assert!(!store.join("manifests/registry.ollama.ai/library").exists());
    assert!(matches!(hub.remove("llama3.2"), Err(Error::NotHere { .. })));
}
