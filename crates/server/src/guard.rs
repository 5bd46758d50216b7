//! Who may ask: by the name in the request, by the page in a browser that asks, and by keys.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::{app::App, config::Config, refusal::Refusal};

/// Paths that need no key: whether the server lives, what it is called, and what can be asked for.
pub const OPEN: [&str; 5] = ["/health", "/v1/health", "/models", "/v1/models", "/openapi.json"];

/// Whose requests share memory: those with the same key, or all where there are no keys.
#[derive(Clone, Copy)]
pub struct Scope(pub u64);

/// What a browser may send where pages of other sites may ask. A key's header has to be named: `*` does not stand for it.
const METHODS: &str = "GET, POST, DELETE, OPTIONS";
const HEADERS: &str = "Authorization, X-Api-Key, *";

/// Refuses requests that may not be answered, gives the others their scope, and tells browsers which pages may ask.
pub async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let config = &app.config;
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed = origin.as_ref().filter(|origin| allows(config, origin));
    let refused = host(config, &request).and_then(|()| {
        let asks = origin.is_some() && request.method() == Method::OPTIONS && !config.origins.is_empty();
        match (&origin, allowed) {
            // A browser asks before the page may: it sends no key, and no page reads the answer.
            _ if asks => Ok(None),
            (Some(origin), None) if !is_own(config, origin) => {
                let message = "the Origin header is not one of this server's names: --cors-origins lets others ask";
                Err(Refusal::host(message))
            }
            _ if OPEN.contains(&request.uri().path()) => Ok(Some(Scope(0))),
            _ => key(config, request.headers()).map(Some),
        }
    });
    let allowed = allowed.cloned();
    let mut response = match refused {
        Ok(None) => StatusCode::OK.into_response(),
        Ok(Some(scope)) => {
            request.extensions_mut().insert(scope);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    };
    if let Some(origin) = allowed {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(HEADERS));
    }
    response
}

/// Whether pages of this origin may ask as `--cors-origins` has it.
fn allows(config: &Config, origin: &HeaderValue) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    config.origins.iter().any(|allowed| match allowed.as_str() {
        "*" => true,
        "localhost" => name_of(origin).is_some_and(is_this_machine),
        allowed => allowed.eq_ignore_ascii_case(origin),
    })
}

/// Whether a page was loaded under one of this server's names.
fn is_own(config: &Config, origin: &HeaderValue) -> bool {
    let host = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    host.is_some_and(|(_, host)| is_known(config, host))
}

/// The name in an origin.
fn name_of(origin: &str) -> Option<&str> {
    origin.split_once("://").map(|(_, host)| name(host))
}

/// Whether a name is that of the machine itself.
fn is_this_machine(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
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
    Ok(())
}

/// A name without its port; a number without brackets.
fn name(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// Whether a name, with or without a port, is this server's. A number is: nobody else's name leads there.
fn is_known(config: &Config, asked: &str) -> bool {
    let name = name(asked);
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
