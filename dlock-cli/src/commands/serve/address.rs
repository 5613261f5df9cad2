//! The address of the page.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::net::TcpListener;

use crate::exit::{Exit, Failure};

/// Listens on an address such as `127.0.0.1:8330` or `localhost:8330`.
pub(super) async fn bind(address: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let (exit, reason) = match error.kind() {
            ErrorKind::AddrInUse => (
                Exit::Internal,
                "another program listens there. Choose another port with `--listen`, or port 0 for any free one"
                    .to_owned(),
            ),
            ErrorKind::InvalidInput => (
                Exit::Usage,
                "it must have a host and a port, such as `127.0.0.1:8330`".to_owned(),
            ),
            _ => (Exit::Internal, error.to_string()),
        };
        Failure::new(exit, format!("cannot listen on `{address}`: {reason}"))
    })
}

/// Reads a name of the server, which has neither a scheme nor a port.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_name) {
        return Err("give the name alone, such as `locks.example.com`".to_owned());
    }
    Ok(text.to_owned())
}

/// Returns the URL by which a browser of this machine finds the page.
pub(super) fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}/", SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_the_page() {
        for (address, told) in [
            ("127.0.0.1:8330", "http://127.0.0.1:8330/"),
            ("[::1]:1", "http://[::1]:1/"),
            ("0.0.0.0:80", "http://127.0.0.1:80/"),
            ("[::]:80", "http://[::1]:80/"),
            ("10.0.0.7:80", "http://10.0.0.7:80/"),
        ] {
            assert_eq!(url(address.parse().unwrap()), told);
        }
    }

    #[test]
    fn a_name_has_neither_scheme_nor_port() {
        assert_eq!(
            name("locks.example.com").as_deref(),
            Ok("locks.example.com")
        );
        for text in [
            "",
            "https://locks.example",
            "locks.example:80",
            "locks/",
            "a b",
            "*",
        ] {
            assert!(name(text).is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn an_address_that_cannot_be_used_is_named_with_the_reason() {
        let listener = bind("127.0.0.1:0").await.unwrap();
        let taken = listener.local_addr().unwrap().to_string();
        for (address, exit, reason) in [
            ("127.0.0.1", Exit::Usage, "such as `127.0.0.1:8330`"),
            ("", Exit::Usage, "such as `127.0.0.1:8330`"),
            ("127.0.0.1:port", Exit::Usage, "such as `127.0.0.1:8330`"),
        ] {
            let failure = bind(address).await.unwrap_err();
            assert_eq!(failure.exit(), exit, "{address}: {failure}");
            assert!(failure.to_string().contains(reason), "{failure}");
        }
        let failure = bind(&taken).await.unwrap_err();
        assert_eq!(failure.exit(), Exit::Internal);
        let text = failure.to_string();
        assert!(
            text.contains(&taken) && text.contains("another program"),
            "{text}"
        );
        drop(listener);
    }
}
