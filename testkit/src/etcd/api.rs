//! Requests to etcd by its JSON interface, so that a test does not see it through dlock.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::{EtcdServer, PAUSE};
use dlock_waiting::within;

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

/// Sends a request of etcd's JSON interface to the member at this port, such as `kv/txn`, and returns the answer. `None` if
/// there is none, or a refusal.
pub async fn etcd_call(port: u16, path: &str, body: &Value) -> Option<Value> {
    match post(port, path, &body.to_string(), None).await? {
        (200, text) => serde_json::from_str(&text).ok(),
        _ => None,
    }
}

/// Gets a page in plain text.
async fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
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
        self.keys_at(prefix, 0).await
    }

    /// The same as they were at a revision.
    pub async fn keys_at(&self, prefix: &str, revision: i64) -> Vec<String> {
        let range = json!({
            "key": encode(prefix.as_bytes()), "range_end": encode(&end(prefix)), "sort_target": "CREATE",
            "sort_order": "ASCEND", "keys_only": true, "revision": revision,
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

    /// Writes until the database is full, and beyond: the server looks at its size before a write, and that of some writes
    /// comes late.
    pub async fn fill(&self) {
        // A write that does not fit raises the alarm. A smaller one may still fit. The database has pages of 4 KiB.
        let filled = within(LIMIT, async {
            for size in [64 * 1024, 1024] {
                self.end_alarms().await;
                self.fill_by(size).await;
                while self.alarms().await.is_empty() {
                    sleep(PAUSE).await;
                }
            }
        });
        assert!(filled.await.is_some(), "the database does not become full");
    }

    /// Writes values of this size until one is refused.
    async fn fill_by(&self, size: usize) {
        const AT_ONCE: usize = 48;
        let value = encode(&vec![b'x'; size]);
        let put = async |number: usize| {
            let key = encode(format!("fill/{size}/{number}").as_bytes());
            let put = json!({"key": key, "value": value}).to_string();
            match post(self.port(), "kv/put", &put, None).await {
                Some((200, _)) => true,
                Some((_, text)) if text.contains("database space exceeded") => false,
                other => panic!("a write: {other:?}"),
            }
        };
        for round in 0.. {
            let numbers = round * AT_ONCE..(round + 1) * AT_ONCE;
            let written = join_all(numbers.map(&put)).await;
            if written.into_iter().any(|is_written| !is_written) {
                return;
            }
        }
    }

    /// Deletes what [`fill`](Self::fill) has written, and ends the alarm.
    pub async fn make_room(&self) {
        self.delete("fill/").await;
        self.compact().await;
        self.call("maintenance/defragment", &json!({})).await;
        self.end_alarms().await;
    }

    async fn end_alarms(&self) {
        for mut off in self.alarms().await {
            off["action"] = "DEACTIVATE".into();
            self.call("maintenance/alarm", &off).await;
        }
    }

    async fn alarms(&self) -> Vec<Value> {
        let raised = self.call("maintenance/alarm", &json!({})).await;
        raised["alarms"].as_array().cloned().unwrap_or_default()
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

    /// The messages that clients have sent to this server since its start, by the names of their requests.
    pub async fn messages(&self) -> BTreeMap<String, u64> {
        const METRIC: &str = "grpc_server_msg_received_total{";
        let text = within(LIMIT, get(self.port(), "/metrics")).await.flatten();
        let text = text.expect("the server shows its metrics");
        let lines = text.lines().filter_map(|line| {
            let (labels, count) = line.strip_prefix(METRIC)?.split_once("} ")?;
            let (_, after) = labels.split_once("grpc_method=\"")?;
            let (method, _) = after.split_once('"')?;
            // Large numbers are written like 1.5e+06.
            let count: f64 = count.parse().ok()?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count"
            )]
            let count = count as u64;
            (count > 0).then(|| (method.to_owned(), count))
        });
        lines.collect()
    }

    /// The number of watches that the server has now.
    pub async fn watches(&self) -> usize {
        let text = within(LIMIT, get(self.port(), "/metrics")).await.flatten();
        let text = text.expect("the server shows its metrics");
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("etcd_debugging_mvcc_watcher_total "));
        let count = count.and_then(|count| count.parse().ok());
        count.expect("the server counts its watches")
    }

    /// The id of this member.
    pub(super) async fn id(&self) -> u64 {
        let (id, _) = self.leader().await.expect("the member answers");
        id.parse().expect("an id is a number")
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
