//! The files of the page.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};

/// A file below `assets/`.
struct Asset {
    name: &'static str,
    text: &'static str,
}

macro_rules! assets {
    ($($name:literal),+ $(,)?) => {
        [$(Asset { name: $name, text: include_str!(concat!("page/", $name)) }),+]
    };
}

/// All files but the document itself, in the order of their names.
static ASSETS: &[Asset] = &assets![
    "absence.js",
    "app.css",
    "app.js",
    "doctor.js",
    "dom.js",
    "drawing.js",
    "icon.svg",
    "lanes.js",
    "live.js",
    "lock.js",
    "locks.js",
    "processes.js",
    "status.js",
    "text.js",
    "time.js",
    "timeline.js",
    "unlock.js",
];

/// The document of all views. It has the base of its relative URLs as `{{base}}`.
static DOCUMENT: &str = include_str!("page/index.html");

/// Returns the document. All views lie in one folder, so the base is that of the document's own URL, below any prefix.
pub(super) fn document() -> Response {
    let text = DOCUMENT.replace("{{base}}", "./");
    let mut response = Response::new(Body::from(text));
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    response
}

/// Returns the file with this name. A browser that has it asks for it with its `ETag`.
pub(super) fn asset(name: &str, asked: &HeaderMap) -> Option<Response> {
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    let tag = HeaderValue::try_from(tag(asset.text)).expect("digits are valid in a header");
    let is_known = asked.get(header::IF_NONE_MATCH) == Some(&tag);
    let mut response = if is_known {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        Response::new(Body::from(asset.text))
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind(asset.name));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::ETAG, tag);
    Some(response)
}

fn kind(name: &str) -> HeaderValue {
    HeaderValue::from_static(match name.rsplit_once('.').map(|(_, end)| end) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        _ => "image/svg+xml",
    })
}

/// Returns the hash of a text by FNV-1a: it differs between versions of the program, and a collision would harm only the page.
fn tag(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("\"{hash:016x}\"")
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[test]
    fn all_files_of_the_page_are_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page");
        let files = fs::read_dir(folder).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<_> = files.filter(|name| name != "index.html").collect();
        let served: BTreeSet<_> = ASSETS.iter().map(|asset| asset.name.to_owned()).collect();
        assert_eq!(files, served);
    }

    #[test]
    fn a_file_is_sent_once_until_it_changes() {
        let first = asset("app.js", &HeaderMap::new()).unwrap();
        assert_eq!(first.status(), StatusCode::OK);
        let tag = first.headers()[header::ETAG].clone();
        let asked = |tag| HeaderMap::from_iter([(header::IF_NONE_MATCH, tag)]);
        let again = asset("app.js", &asked(tag)).unwrap();
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        let other = HeaderValue::from_static("\"0000000000000000\"");
        let changed = asset("app.js", &asked(other)).unwrap();
        assert_eq!(changed.status(), StatusCode::OK);
        assert!(asset("index.html", &HeaderMap::new()).is_none());
        assert!(asset("../web.rs", &HeaderMap::new()).is_none());
    }
}
