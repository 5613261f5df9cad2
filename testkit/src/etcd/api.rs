//! Requests to etcd by its JSON interface, so that a test does not see it through dlock.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::EtcdServer;
use crate::within::within;

const LIMIT: Duration = Duration::from_secs(30);

/// Sends a request and returns the status with the body; `None` if there is no answer.
pub(super) async fn post(
    port: u16,
    path: &str,
    body: &str,
    token: Option<&str>,
) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let login = token.map_or(String::new(), |token| format!("Authorization: {token}\r\n"));
    // In this version of HTTP, an answer ends with its connection.
    let request = format!(
        "POST /v3/{path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{login}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some((status, body.to_owned()))
}

impl EtcdServer {
    /// Sends a request of etcd's JSON interface, such as `kv/txn`, and returns the answer.
    pub async fn call(&self, path: &str, body: &Value) -> Value {
        self.call_as(None, path, body).await
    }

    /// The same with the token of a login.
    pub async fn call_as(&self, token: Option<&str>, path: &str, body: &Value) -> Value {
        let posted = within(LIMIT, post(self.port(), path, &body.to_string(), token)).await;
        let Some(Some((200, text))) = posted else {
            panic!("{path} {body}: {posted:?}");
        };
        serde_json::from_str(&text).expect("the answer is JSON")
    }

    /// The keys that begin with this text, in the order of their creation.
    pub async fn keys(&self, prefix: &str) -> Vec<String> {
        let range = json!({
            "key": encode(prefix.as_bytes()), "range_end": encode(&end(prefix)), "sort_target": "CREATE",
            "sort_order": "ASCEND", "keys_only": true,
        });
        let answer = self.call("kv/range", &range).await;
        let kvs = answer["kvs"].as_array().cloned().unwrap_or_default();
        kvs.iter().map(|kv| decode(&kv["key"])).collect()
    }

    /// The value of a key.
    pub async fn get(&self, key: &str) -> Option<String> {
        let answer = self
            .call("kv/range", &json!({"key": encode(key.as_bytes())}))
            .await;
        let kv = answer["kvs"].as_array()?.first()?.clone();
        Some(decode(&kv["value"]))
    }

    /// The id of the lease that a key has, as etcd's JSON interface writes it.
    pub async fn lease_of(&self, key: &str) -> Option<String> {
        let answer = self
            .call("kv/range", &json!({"key": encode(key.as_bytes())}))
            .await;
        let lease = &answer["kvs"].as_array()?.first()?["lease"];
        lease.as_str().map(str::to_owned)
    }

    /// Makes a lease, and returns its id.
    pub async fn lease(&self, seconds: u32) -> String {
        let answer = self.call("lease/grant", &json!({"TTL": seconds})).await;
        let id = answer["ID"].as_str().expect("a lease has an id");
        id.to_owned()
    }

    /// Writes a key with a lease. Returns `false` if the lease does not exist.
    pub async fn put_with(&self, lease: &str, key: &str, value: &str) -> bool {
        let put = json!({
            "key": encode(key.as_bytes()), "value": encode(value.as_bytes()), "lease": lease,
        });
        let put = put.to_string();
        let posted = post(self.port(), "kv/put", &put, None);
        match within(LIMIT, posted).await.flatten() {
            Some((200, _)) => true,
            Some((_, text)) if text.contains("lease not found") => false,
            other => panic!("a write: {other:?}"),
        }
    }

    /// Writes a key.
    pub async fn put(&self, key: &str, value: &str) {
        let put = json!({"key": encode(key.as_bytes()), "value": encode(value.as_bytes())});
        self.call("kv/put", &put).await;
    }

    /// Writes many keys with their values, in transactions of 100.
    pub async fn put_all(&self, pairs: &[(String, String)]) {
        for some in pairs.chunks(100) {
            let puts: Vec<_> = some
                .iter()
                .map(|(key, value)| {
                    let (key, value) = (encode(key.as_bytes()), encode(value.as_bytes()));
                    json!({"request_put": {"key": key, "value": value}})
                })
                .collect();
            self.call("kv/txn", &json!({ "success": puts })).await;
        }
    }

    /// Writes until the database is full.
    pub async fn fill(&self) {
        let value = encode(&vec![b'x'; 512 * 1024]);
        let filled = within(LIMIT, async {
            for number in 0.. {
                let key = encode(format!("fill/{number}").as_bytes());
                let put = json!({"key": key, "value": value}).to_string();
                match post(self.port(), "kv/put", &put, None).await {
                    Some((200, _)) => {}
                    Some((_, text)) if text.contains("database space exceeded") => return,
                    other => panic!("a write: {other:?}"),
                }
            }
        });
        assert!(filled.await.is_some(), "the database does not become full");
    }

    /// Deletes the keys that begin with this text.
    pub async fn delete(&self, prefix: &str) {
        let range = json!({"key": encode(prefix.as_bytes()), "range_end": encode(&end(prefix))});
        self.call("kv/deleterange", &range).await;
    }

    /// The present revision.
    pub async fn revision(&self) -> i64 {
        let answer = self.call("kv/range", &json!({"key": "AA=="})).await;
        let revision = answer["header"]["revision"].as_str();
        revision
            .and_then(|text| text.parse().ok())
            .expect("an answer has a revision")
    }

    /// Forgets all revisions before the present one.
    pub async fn compact(&self) {
        let revision = self.revision().await;
        let compact = json!({"revision": revision.to_string(), "physical": true});
        self.call("kv/compaction", &compact).await;
    }

    /// Puts a key if each of these was created at this revision and is still there. Returns whether it did.
    pub async fn put_if(&self, created: &[(Vec<u8>, i64)], key: &str, value: &str) -> bool {
        let compare: Vec<_> = created
            .iter()
            .map(|(name, revision)| {
                json!({
                    "result": "EQUAL", "target": "CREATE", "key": encode(name),
                    "create_revision": revision.to_string(),
                })
            })
            .collect();
        let put = json!({"key": encode(key.as_bytes()), "value": encode(value.as_bytes())});
        let txn = json!({"compare": compare, "success": [{"request_put": put}]});
        self.call("kv/txn", &txn).await["succeeded"].as_bool() == Some(true)
    }

    /// The id of this member and that of its leader.
    pub(super) async fn leader(&self) -> Option<(String, String)> {
        let (status, text) = post(self.port(), "maintenance/status", "{}", None).await?;
        let answer: Value = serde_json::from_str(&text).ok().filter(|_| status == 200)?;
        let id = |value: &Value| value.as_str().map(str::to_owned);
        Some((id(&answer["header"]["member_id"])?, id(&answer["leader"])?))
    }
}

/// The first name behind all that begin with this text.
fn end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().expect("a prefix is not empty") += 1;
    end
}

fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn decode(value: &Value) -> String {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default());
    let bytes = bytes.expect("etcd sends bytes in base64");
    String::from_utf8(bytes).expect("dlock's keys and values are text")
}
