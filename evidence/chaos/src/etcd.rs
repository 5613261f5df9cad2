//! The keys of etcd that a run reads, and those of what its locks protect.

use base64::{Engine, engine::general_purpose::STANDARD};
use dlock_testkit::etcd_call;
use serde_json::{Value, json};

use crate::books::{Account, Books};

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

/// The keys of all locks: claims, and the gates of waiters.
pub(crate) async fn left_over(port: u16) -> Option<Vec<String>> {
    let [from, to] = ["dlock/", "dlock0"].map(|name| encoded(name.as_bytes()));
    let range = json!({"key": from, "range_end": to, "keys_only": true});
    let answer = etcd_call(port, "kv/range", &range).await?;
    let kvs = answer["kvs"].as_array().into_iter().flatten();
    let keys = kvs.map(|kv| String::from_utf8_lossy(&decoded(&kv["key"])).into_owned());
    Some(keys.filter(|key| key != "dlock//fence").collect())
}
