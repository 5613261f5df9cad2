//! The keys of etcd that a run reads, and those of what its locks protect.

use std::collections::{BTreeMap, BTreeSet};

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
    /// The number of decisions that the member has carried out; `None` if it carried out more meanwhile.
    applied: Option<String>,
    keys: Vec<Value>,
}

impl Data {
    pub(crate) async fn of(port: u16) -> Option<Self> {
        let before = applied(port).await?;
        let every = encoded(b"\0");
        let range = json!({"key": every, "range_end": every, "serializable": true});
        let answer = etcd_call(port, "kv/range", &range).await?;
        let after = applied(port).await?;
        Some(Self {
            port,
            revision: text(&answer["header"]["revision"]),
            applied: Some(before).filter(|before| *before == after),
            keys: answer["kvs"].as_array().cloned().unwrap_or_default(),
        })
    }

    pub(crate) fn agree(all: &[Self]) -> bool {
        all.windows(2)
            .all(|pair| pair[0].revision == pair[1].revision && pair[0].keys == pair[1].keys)
    }

    /// The difference between members that do not agree, with some of the keys.
    pub(crate) fn difference(all: &[Self]) -> String {
        let is_settled = all
            .iter()
            .all(|data| data.applied.is_some() && data.applied == all[0].applied);
        let verdict = if is_settled {
            "broken promise: the members of etcd have different data after the same decisions, which is a fault of etcd: 3.5.0 to \
             3.5.2 have it when one is killed (etcd-io/etcd#13766)"
        } else {
            "a member of etcd is still behind the others"
        };
        let mut counts = BTreeMap::new();
        for kv in all.iter().flat_map(|data| &data.keys) {
            counts
                .entry(kv.to_string())
                .or_insert_with(|| (0, name(kv)))
                .0 += 1;
        }
        let unlike = counts.into_values().filter(|(count, _)| *count < all.len());
        let names: BTreeSet<_> = unlike.map(|(_, name)| name).collect();
        let some: Vec<_> = names.iter().take(SHOWN).collect();
        let members = all.iter().map(|data| {
            let (port, keys, revision) = (data.port, data.keys.len(), &data.revision);
            let applied = data.applied.as_deref().unwrap_or("more and more");
            format!("{port}: {keys} keys at revision {revision} after {applied} decisions")
        });
        let members = members.collect::<Vec<_>>().join(", ");
        let count = names.len();
        format!("{verdict}\n  {members}\n  {count} keys are not the same, such as {some:?}")
    }
}

/// The number of decisions that a member has carried out.
async fn applied(port: u16) -> Option<String> {
    let status = etcd_call(port, "maintenance/status", &json!({})).await?;
    Some(text(&status["raftAppliedIndex"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
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

    fn data(applied: Option<&str>, revision: &str, value: &str) -> Data {
        let (key, value) = (encoded(b"book/stock"), encoded(value.as_bytes()));
        Data {
            port: 2379,
            revision: revision.to_owned(),
            applied: applied.map(str::to_owned),
            keys: vec![json!({"key": key, "value": value})],
        }
    }

    #[test]
    fn members_with_other_data_after_the_same_decisions_are_a_fault_of_etcd() {
        let one = || data(Some("7"), "3", "1");
        assert!(Data::agree(&[one(), one(), data(None, "3", "1")]));
        for (other, is_fault, keys) in [
            (
                data(Some("7"), "3", "2"),
                true,
                r#"1 keys are not the same, such as ["book/stock"]"#,
            ),
            (data(Some("7"), "4", "1"), true, "0 keys"),
            (data(Some("6"), "3", "2"), false, "1 keys"),
            (data(None, "3", "2"), false, "1 keys"),
        ] {
            let all = [one(), one(), other];
            assert!(!Data::agree(&all), "{all:?}");
            let text = Data::difference(&all);
            assert_eq!(text.contains("a fault of etcd"), is_fault, "{text}");
            assert!(text.contains(keys), "{text}");
        }
    }

    #[tokio::test]
    async fn the_data_of_a_member_is_read() {
        let server = EtcdServer::start().await;
        open(server.port(), &["stock"]).await.unwrap();
        let before = Data::of(server.port()).await.unwrap();
        assert_eq!(
            before.keys.iter().map(name).collect::<Vec<_>>(),
            ["book/stock"]
        );
        server.put("book/stock", "2").await;
        let after = Data::of(server.port()).await.unwrap();
        assert!(!Data::agree(&[before, after]));
    }
}
