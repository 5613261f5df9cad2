//! The keys of etcd that a run reads, and those of what its locks protect.

use base64::{Engine, engine::general_purpose::STANDARD};
use dlock_testkit::etcd_call;
use serde_json::{Value, json};

use crate::books::{Account, Books};

/// So many keys are shown.
const SHOWN: usize = 5;

/// The key of an account. Its entries follow it.
pub(crate) fn account(key: &str) -> String {
    format!("book/{key}")
}

/// The prefix of the entries of an account.
pub(crate) fn entries(key: &str) -> String {
    format!("book/{key}/entry/")
}

pub(crate) fn encoded(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(crate) fn put(key: &str, value: &[u8]) -> Value {
    json!({"request_put": {"key": encoded(key.as_bytes()), "value": encoded(value)}})
}

pub(crate) fn get(key: &str) -> Value {
    json!({"request_range": {"key": encoded(key.as_bytes())}})
}

/// The values that one of the reads in a transaction has found.
pub(crate) fn values(answer: &Value, read: usize) -> Vec<Vec<u8>> {
    let kvs = answer["responses"][read]["response_range"]["kvs"].as_array();
    let values = kvs.into_iter().flatten();
    values.map(|kv| decoded(&kv["value"])).collect()
}

/// An operation that changes nothing. With it, no transaction only reads: a member of etcd before 3.5.7 crashes if such a transaction
/// is given up.
pub(crate) fn nothing() -> Value {
    json!({"request_delete_range": {"key": encoded(b"nothing")}})
}

fn decoded(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap_or_default();
    STANDARD.decode(text).expect("etcd sends bytes in base64")
}

/// Makes an empty account for each key.
pub(crate) async fn open(port: u16, keys: &[&str]) -> Option<()> {
    let puts = keys
        .iter()
        .map(|key| put(&account(key), &Account::empty(key).to_json()));
    let puts: Vec<_> = puts.collect();
    let written = etcd_call(port, "kv/txn", &json!({ "success": puts })).await;
    written.map(drop)
}

pub(crate) async fn read(port: u16, keys: &[&str]) -> Option<Books> {
    let mut books = Books::default();
    for key in keys {
        let from = entries(key);
        // The last byte is `/`, and `0` follows it.
        let to = format!("{}0", &from[..from.len() - 1]);
        let (from, to) = (encoded(from.as_bytes()), encoded(to.as_bytes()));
        let all = json!({"request_range": {"key": from, "range_end": to}});
        let reads = json!({"success": [get(&account(key)), all, nothing()]});
        let answer = etcd_call(port, "kv/txn", &reads).await?;
        let [own, entries] = [0, 1].map(|read| values(&answer, read));
        books
            .accounts
            .extend(own.iter().map(|it| Account::from_json(it)));
        let entries = entries.iter().map(|it| serde_json::from_slice(it));
        let entries: Result<Vec<_>, _> = entries.collect();
        books.entries.extend(entries.expect("an entry is JSON"));
    }
    Some(books)
}

/// All keys as one member has them by itself, with their revisions and values.
#[derive(Debug)]
pub(crate) struct Data {
    port: u16,
    revision: String,
    /// The last of the ensemble's decisions that the member has carried out.
    applied: String,
    keys: Vec<Value>,
}

impl Data {
    pub(crate) async fn of(port: u16) -> Option<Self> {
        let status = etcd_call(port, "maintenance/status", &json!({})).await?;
        let every = encoded(b"\0");
        let range = json!({"key": every, "range_end": every, "serializable": true});
        let answer = etcd_call(port, "kv/range", &range).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Some(Self {
            port,
            revision: text(&answer["header"]["revision"]),
            applied: text(&status["raftAppliedIndex"]),
            keys: answer["kvs"].as_array().cloned().unwrap_or_default(),
        })
    }

    /// What not all of the members have alike, with some of the keys. None if they agree.
    pub(crate) fn difference(all: &[Self]) -> Option<String> {
        let is_same =
            |pair: &[Self]| pair[0].revision == pair[1].revision && pair[0].keys == pair[1].keys;
        if all.windows(2).all(is_same) {
            return None;
        }
        let ours = all.iter().flat_map(|data| &data.keys);
        let unlike = ours.filter(|kv| !all.iter().all(|data| data.keys.contains(kv)));
        let mut names: Vec<_> = unlike.map(name).collect();
        names.sort_unstable();
        names.dedup();
        let count = names.len();
        names.truncate(SHOWN);
        let members = all.iter().map(|data| {
            let Self {
                port,
                revision,
                applied,
                keys,
            } = data;
            format!(
                "{port}: {} keys at revision {revision} after {applied} decisions",
                keys.len()
            )
        });
        let members = members.collect::<Vec<_>>().join(", ");
        Some(format!(
            "the members of etcd have different data, which is a fault of etcd: 3.5.0 to 3.5.2 have it when one is killed \
             (etcd-io/etcd#13766)\n  {members}\n  {count} keys are not the same, such as {names:?}"
        ))
    }
}

fn name(kv: &Value) -> String {
    String::from_utf8_lossy(&decoded(&kv["key"])).into_owned()
}

/// The keys of all locks: claims, and the gates of waiters.
pub(crate) async fn left_over(port: u16) -> Option<Vec<String>> {
    let [from, to] = ["dlock/", "dlock0"].map(|name| encoded(name.as_bytes()));
    let range = json!({"key": from, "range_end": to, "keys_only": true});
    let answer = etcd_call(port, "kv/range", &range).await?;
    let kvs = answer["kvs"].as_array().into_iter().flatten();
    Some(kvs.map(name).filter(|key| key != "dlock//fence").collect())
}

#[cfg(test)]
mod tests {
    use dlock_testkit::EtcdServer;

    use super::*;

    #[tokio::test]
    async fn members_with_other_keys_or_revisions_differ() {
        let [one, other] = [EtcdServer::start().await, EtcdServer::start().await];
        let ports = [one.port(), other.port()];
        let difference = async || {
            let all = [
                Data::of(ports[0]).await.unwrap(),
                Data::of(ports[1]).await.unwrap(),
            ];
            Data::difference(&all)
        };
        assert_eq!(difference().await, None);
        open(ports[0], &["stock"]).await.unwrap();
        let text = difference().await.unwrap();
        assert!(
            text.contains(r#"1 keys are not the same, such as ["book/stock"]"#),
            "{text}"
        );
        open(ports[1], &["stock"]).await.unwrap();
        assert_eq!(difference().await, None);
        // The same keys, of which those of one member were written later.
        let nothing = json!({"key": encoded(b"nothing"), "value": ""});
        other.call("kv/put", &nothing).await;
        other.call("kv/deleterange", &nothing).await;
        let text = difference().await.unwrap();
        assert!(text.contains("0 keys are not the same"), "{text}");
    }
}
