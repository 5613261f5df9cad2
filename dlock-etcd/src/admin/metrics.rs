//! The quota of a member's database, of which versions before 3.6 tell nothing but by their metrics.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const QUOTA: &str = "etcd_server_quota_backend_bytes";

/// Metrics of etcd have some hundred kilobytes.
const MOST: u64 = 4 * 1024 * 1024;

/// Reads the quota from the metrics at the address of clients; `None` if they are not served there, or by TLS alone.
pub(super) async fn quota(place: &str, limit: Duration) -> Option<u64> {
    timeout(limit, read(place)).await.ok().flatten()
}

async fn read(place: &str) -> Option<u64> {
    let mut stream = TcpStream::connect(place).await.ok()?;
    // In this version of HTTP, an answer ends with its connection.
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {place}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer).await.ok()?;
    quota_in(&String::from_utf8_lossy(&answer))
}

/// The value is written as a floating-point number, such as `2.147483648e+09`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a quota is a positive number of bytes, and it is only compared roughly"
)]
fn quota_in(metrics: &str) -> Option<u64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(QUOTA));
    let value: f64 = line?.trim().parse().ok()?;
    (value.is_finite() && value >= 1.0).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_is_found_among_the_metrics() {
        let text = "HTTP/1.0 200 OK\r\n\r\n# TYPE etcd_server_quota_backend_bytes gauge\n\
                    etcd_server_quota_backend_bytes 2.147483648e+09\nother 1\n";
        assert_eq!(quota_in(text), Some(2 * 1024 * 1024 * 1024));
        assert_eq!(quota_in("etcd_server_quota_backend_bytes 1"), Some(1));
        for none in [
            "",
            "etcd_server_quota_backend_bytes x",
            "etcd_server_quota_backend_bytes 0",
            "etcd_server_quota_backend_bytes +Inf",
        ] {
            assert_eq!(quota_in(none), None, "{none}");
        }
    }
}
