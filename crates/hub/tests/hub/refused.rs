//! Tokens, and what 401, 403 and 404 mean.

use crate::*;

#[test]
fn a_token_is_for_the_hub_alone() {
    let folder = tempfile::tempdir().unwrap();
    let files_there = one(1, 5 * PIECE);
    let fake = Fake::new(&files_there);
    let mut settings = fake.settings(folder.path());
    settings.token = Some("hf_secret".to_owned());
    pull(&settings, "hf:u/r").unwrap();
    let sent = |server: &Server| {
        let asked = server.seen.asked.lock().unwrap();
        (
            asked.len(),
            asked.iter().filter(|asked| asked.headers.values().any(|value| value.contains("hf_secret"))).count(),
        )
    };
    let (asked, with) = sent(&fake.hub);
    assert!(asked > 0 && asked == with, "{asked} {with}");
    let (asked, with) = sent(&fake.cdn);
    assert!(asked > 0 && with == 0, "{asked} {with}");
}

#[test]
fn a_token_does_not_follow_redirects_of_names_and_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let other = Server::start(|asked| Reply::file(asked, &bytes(1, 9), "\"e\""));
    let place = other.url();
    // All that the hub is asked for leads elsewhere.
    let hub = Server::start(move |asked| Reply::status(307).with("location", format!("{place}{}", asked.path)));
    let mut settings = settings(folder.path(), &hub.url());
    settings.token = Some("hf_secret".to_owned());
    let error = pull(&settings, "hf:u/r").unwrap_err();
    assert!(matches!(error, Error::Answer { .. }), "{error}");
    pull(&settings, &format!("{}/a/m.gguf", hub.url())).unwrap();
    let asked = other.seen.asked.lock().unwrap();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.header("authorization").is_none()), "{asked:?}");
}

#[test]
fn refusals_say_what_to_do() {
    for (status, code, token, expected, hint) in [
        (
            401,
            "RepoNotFound",
            None,
            "asks for a login (401)",
            "the name may be wrong; if it is private, HF_TOKEN=hf_... gives",
        ),
        (401, "RepoNotFound", Some("hf_x"), "asks for a login (401)", "the token is not valid there"),
        (401, "GatedRepo", None, "asks for a login (401)", "agree to its terms at "),
        (403, "GatedRepo", Some("hf_x"), "refuses it (403)", "the account of HF_TOKEN has no access: ask for it at "),
        (404, "RepoNotFound", Some("hf_x"), "does not have it (404)", "check the spelling"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(move |_| Reply::status(status).with("x-error-code", code));
        let mut settings = settings(folder.path(), &server.url());
        settings.token = token.map(str::to_owned);
        let error = pull(&settings, "hf:u/r").unwrap_err();
        assert_eq!(error.to_string(), format!("hf:u/r: {} {expected}", server.host()));
        let said = error.hint().unwrap();
        assert!(said.starts_with(hint), "{status} {code}: {said}");
        if hint.ends_with(" at ") {
            assert!(said.contains(&format!("{}/u/r", server.url())), "{said}");
        }
        assert_eq!(server.count("/"), 1, "asked once: {status}");
    }
}

#[test]
fn a_realm_is_never_asked() {
    let folder = tempfile::tempdir().unwrap();
    let realm = Server::start(|_| Reply::text("{\"token\": \"t\"}"));
    let place = realm.url();
    let registry = Server::start(move |_| {
        Reply::status(401).with("www-authenticate", format!("Bearer realm=\"{place}/token\",service=\"s\",scope=\"x\""))
    });
    let mut settings = settings(folder.path(), &registry.url());
    settings.token = Some("hf_secret".to_owned());
    for text in [format!("ollama:{}/u/m:t", registry.host()), "hf:u/r".to_owned(), format!("{}/m.gguf", registry.url())]
    {
        let error = pull(&settings, &text).unwrap_err();
        assert!(matches!(error, Error::Unauthorized { .. }), "{text}: {error}");
    }
    assert_eq!(realm.count("/"), 0);
    let of_registry = registry.seen.asked.lock().unwrap();
    assert!(
        of_registry
            .iter()
            .filter(|asked| asked.path.contains("/v2/"))
            .all(|asked| asked.header("authorization").is_none())
    );
}
