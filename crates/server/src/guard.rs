//! Who may ask: by the name in the request, where a page in a browser asks from, and keys.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::{app::App, config::Config, refusal::Refusal};

/// Paths that need no key: whether the server lives, and what it is called.
const OPEN: [&str; 4] = ["/health", "/v1/health", "/models", "/v1/models"];

/// Whose requests share memory: those with the same key, or all where there are no keys.
#[derive(Clone, Copy)]
pub struct Scope(pub u64);

/// Refuses requests that may not be answered; the others are given their scope.
pub async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let scope = host(&app.config, &request).and_then(|()| match OPEN.contains(&request.uri().path()) {
        true => Ok(Scope(0)),
        false => key(&app.config, request.headers()),
    });
    match scope {
        Ok(scope) => {
            request.extensions_mut().insert(scope);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Refuses names that are not this server's: a page may have its own name lead here.
fn host(config: &Config, request: &Request) -> Result<(), Refusal> {
    let mut named = request.headers().get_all(header::HOST).iter();
    let (Some(host), None) = (named.next(), named.next()) else {
        return Err(Refusal::host("expected one Host header"));
    };
    let asked = [host.to_str().ok(), request.uri().authority().map(|authority| authority.as_str())];
    let is_wrong = |asked: &Option<&str>| asked.is_some_and(|asked| !is_known(config, asked));
    if asked[0].is_none() || asked.iter().any(is_wrong) {
        let message = "the Host header is not one of this server's names: --allowed-hosts NAME adds one";
        return Err(Refusal::host(message));
    }
    match request.headers().get(header::ORIGIN) {
        None => Ok(()),
        Some(origin) => {
            let host = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
            match host.is_some_and(|host| is_known(config, host)) {
                true => Ok(()),
                false => Err(Refusal::host("the Origin header is not one of this server's names")),
            }
        }
    }
}

/// Whether a name, with or without a port, is this server's. A number is: nobody else's name leads there.
fn is_known(config: &Config, asked: &str) -> bool {
    let name = match asked.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => asked.rsplit_once(':').map_or(asked, |(name, _)| name),
    };
    let own = ["localhost", config.host.as_str()].into_iter().chain(config.hosts.iter().map(String::as_str));
    !name.is_empty() && (name.parse::<IpAddr>().is_ok() || own.into_iter().any(|own| own.eq_ignore_ascii_case(name)))
}

/// Refuses requests without a key, where there are keys. How long that takes says nothing of them.
fn key(config: &Config, headers: &HeaderMap) -> Result<Scope, Refusal> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let given = bearer.or_else(|| headers.get("x-api-key").map(|value| value.as_bytes())).unwrap_or_default();
    let number = config
        .keys
        .iter()
        .zip(1..)
        .fold(0, |number, (key, other)| u64::conditional_select(&number, &other, key.as_bytes().ct_eq(given)));
    if config.keys.is_empty() || number > 0 { Ok(Scope(number)) } else { Err(Refusal::key()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_with_and_without_ports() {
        let config = Config { hosts: vec!["Models.lan".to_owned()], ..Config::default() };
        for known in ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "10.0.0.7", "[::1]:1", "models.lan:8080"] {
            assert!(is_known(&config, known), "{known}");
        }
        for other in ["", ":8080", "evil.example", "evil.example:8080", "localhost.evil.example", "[evil]", "[]"] {
            assert!(!is_known(&config, other), "{other}");
        }
    }
}
