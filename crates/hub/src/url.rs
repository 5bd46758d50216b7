//! The little of addresses that is needed: whose they are, and where a redirect leads.

/// Scheme, host and port, in lower case: what a token belongs to.
pub fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_ascii_lowercase();
    if host.is_empty() || !matches!(scheme.as_str(), "http" | "https") {
        return None;
    }
    let standard = if scheme == "https" { ":443" } else { ":80" };
    Some(format!("{scheme}://{}", host.strip_suffix(standard).unwrap_or(&host)))
}

/// The host with its port, for messages.
pub fn host(url: &str) -> String {
    origin(url).and_then(|origin| Some(origin.split_once("://")?.1.to_owned())).unwrap_or_else(|| url.to_owned())
}

/// Where a `Location` leads that `base` answered with.
pub fn join(base: &str, location: &str) -> Option<String> {
    if location.contains("://") && !location.starts_with('/') {
        return origin(location).map(|_| location.to_owned());
    }
    let (scheme, rest) = base.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    if let Some(other) = location.strip_prefix("//") {
        return Some(format!("{scheme}://{other}"));
    }
    if location.starts_with('/') {
        return Some(format!("{scheme}://{authority}{location}"));
    }
    let path = rest[authority.len()..].split(['?', '#']).next()?;
    let folder = path.rfind('/').map_or("/", |end| &path[..=end]);
    Some(format!("{scheme}://{authority}{folder}{location}"))
}

/// A path with all bytes escaped that mean something else in an address; `/` stays.
pub fn escape(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The bytes that `escape` wrote otherwise, as they were; `None` if that is no text.
pub fn unescape(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        for (url, expected) in [
            ("https://Hub.example/a/b", Some("https://hub.example")),
            ("https://hub.example:443/a", Some("https://hub.example")),
            ("http://hub.example:443/a", Some("http://hub.example:443")),
            ("https://hub.example@evil.example/a", Some("https://evil.example")),
            ("https://evil.example?hub.example", Some("https://evil.example")),
            ("ftp://hub.example", None),
            ("https:///a", None),
        ] {
            assert_eq!(origin(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn redirects_are_relative_or_not() {
        let base = "https://hub.example/a/b?c=/d";
        for (location, expected) in [
            ("/x", "https://hub.example/x"),
            ("x", "https://hub.example/a/x"),
            ("//other.example/x", "https://other.example/x"),
            ("http://other.example/x", "http://other.example/x"),
            ("/x?to=http://other.example", "https://hub.example/x?to=http://other.example"),
        ] {
            assert_eq!(join(base, location).as_deref(), Some(expected), "{location}");
        }
        assert_eq!(join(base, "file:///etc/passwd"), None);
    }

    #[test]
    fn what_is_escaped_comes_back() {
        assert_eq!(escape("a b/c#?%é.gguf"), "a%20b/c%23%3F%25%C3%A9.gguf");
        assert_eq!(unescape("a%20b/c%23%3F%25%C3%A9.gguf").as_deref(), Some("a b/c#?%é.gguf"));
        assert_eq!((unescape("%2"), unescape("%ff")), (None, None));
    }
}
