//! The permissions of a browser on the page, and the requests that are answered.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::Response,
};

use super::{reply, room::Room};

/// The page loads nothing from elsewhere, runs no code but its files, and is shown in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'self'; form-action 'none'; frame-ancestors 'none'";

/// The headers of all responses.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-embedder-policy"),
        "require-corp",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Answers a request if it may be answered, and adds the headers of all responses.
pub(super) async fn protect(
    State(room): State<Arc<Room>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = if let Some(refused) = refusal(&room, &request) {
        reply::failure(StatusCode::FORBIDDEN, refused)
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // The holder of a lock is not for the disk of a browser.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

fn refusal(room: &Room, request: &Request) -> Option<&'static str> {
    if !room.hosts.have(host(request.headers(), request.uri())) {
        // A name that another site has let point to this machine.
        return Some(
            "this page is not served under the name in the address: open it at an IP address or localhost, or let the server \
             know the name, with `--host` of `dlock serve` or `Page::hosts`",
        );
    }
    let site = request.headers().get("sec-fetch-site");
    let is_other = site.is_some_and(|site| site == "cross-site" || site == "same-site");
    let is_data = request.uri().path().starts_with("/api/");
    if is_data && is_other {
        return Some("another site may not read this page");
    }
    None
}

/// Returns `true` if a request comes from the page itself, or from a program that is no browser.
pub(super) fn is_same_origin(headers: &HeaderMap, uri: &Uri) -> bool {
    // No script can set it, and unlike `Origin` it holds behind a proxy that sends another `Host`.
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    headers.get(header::ORIGIN).is_none_or(|origin| {
        let origin = origin.to_str().ok().and_then(|it| it.split_once("://"));
        let host = host(headers, uri);
        origin.is_some_and(|(_, place)| host.is_some_and(|host| host.eq_ignore_ascii_case(place)))
    })
}

/// Returns host and port that the client asked for. HTTP/2 has them in the URL.
fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let mut named = headers.get_all(header::HOST).iter();
    match (named.next(), named.next()) {
        (Some(host), None) => host.to_str().ok(),
        (None, _) => uri.authority().map(Authority::as_str),
        // The one that is checked must be the one that counts.
        (Some(_), Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The host that is checked must be the one that counts.
    #[test]
    fn a_host_is_named_by_one_field_or_else_by_the_url() {
        for (hosts, uri, named) in [
            (&["h:1"][..], "/locks", Some("h:1")),
            (&["h:1"], "https://other:2/locks", Some("h:1")),
            (&[], "https://h:2/locks", Some("h:2")),
            (&[], "/locks", None),
            (&["h:1", "evil.example"], "/locks", None),
            (&["h:1", "h:1"], "https://h:1/locks", None),
        ] {
            let mut headers = HeaderMap::new();
            for &value in hosts {
                headers.append(header::HOST, HeaderValue::from_static(value));
            }
            let uri = Uri::from_static(uri);
            assert_eq!(host(&headers, &uri), named, "{hosts:?} {uri}");
        }
    }

    #[test]
    fn a_page_of_another_origin_is_not_the_page_itself() {
        let uri = Uri::from_static("/api/unlock");
        let from = |fields: &[(&'static str, &'static str)]| {
            let headers = fields.iter().map(|(name, value)| {
                let name = HeaderName::from_static(name);
                (name, HeaderValue::from_static(value))
            });
            is_same_origin(&headers.collect(), &uri)
        };
        let host = ("host", "h:1");
        assert!(from(&[host]), "a program that is no browser");
        assert!(from(&[host, ("origin", "http://h:1")]));
        assert!(from(&[
            host,
            ("origin", "https://H:1"),
            ("sec-fetch-site", "same-origin")
        ]));
        for (name, value) in [
            ("origin", "http://h:2"),
            ("origin", "http://evil.example"),
            ("origin", "http://h:1.evil.example"),
            ("origin", "null"),
            ("origin", ""),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "none"),
        ] {
            assert!(!from(&[host, (name, value)]), "{name}: {value}");
        }
        assert!(!from(&[("origin", "http://h:1")]), "no host");
        let proxied = [host, ("origin", "https://locks.example")];
        assert!(from(&[
            proxied[0],
            proxied[1],
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(!from(&[
            host,
            ("origin", "http://h:1"),
            ("sec-fetch-site", "cross-site")
        ]));
    }
}
