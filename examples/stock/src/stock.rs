//! The stock in etcd, by its JSON interface: keys and values are bytes in base64.

use base64::{Engine, engine::general_purpose::STANDARD};
use dlock_etcd::LeaseKey;
use serde_json::{Value, json};

#[derive(Debug, thiserror::Error)]
pub(crate) enum StockError {
    #[error("the URL `{0}` names more than one member, or options; write `etcd://host:2379`")]
    Url(String),
    #[error("etcd cannot be asked: {0}")]
    Request(#[from] reqwest::Error),
    #[error("the stock of `{0}` is not a number; delete its key")]
    NotANumber(String),
}

/// The numbers of items that are left.
#[derive(Clone, Debug)]
pub(crate) struct Stock {
    http: reqwest::Client,
    url: String,
}

impl Stock {
    pub(crate) fn new(url: &str) -> Result<Self, StockError> {
        let place = url.strip_prefix("etcd://").unwrap_or_default();
        if place.is_empty() || place.contains([',', '?', '@', '/']) {
            return Err(StockError::Url(url.to_owned()));
        }
        Ok(Self {
            http: reqwest::Client::new(),
            url: format!("http://{place}/v3/kv"),
        })
    }

    /// Returns the number of items that are left.
    pub(crate) async fn left(&self, item: &str) -> Result<u32, StockError> {
        let answer = self.ask("range", &json!({"key": key(item)})).await?;
        let number = || {
            let bytes = STANDARD.decode(answer["kvs"][0]["value"].as_str()?).ok()?;
            String::from_utf8(bytes).ok()?.parse().ok()
        };
        number().ok_or_else(|| StockError::NotANumber(item.to_owned()))
    }

    /// Sets the number if all of these leases are held at that moment. Returns `false` if one is not.
    pub(crate) async fn set(
        &self,
        item: &str,
        left: u32,
        held: &[LeaseKey],
    ) -> Result<bool, StockError> {
        let compare: Vec<_> = held
            .iter()
            .map(|lease| {
                json!({
                    "key": STANDARD.encode(lease.name()), "target": "CREATE", "result": "EQUAL",
                    "create_revision": lease.create_revision().to_string(),
                })
            })
            .collect();
        let put = json!({"key": key(item), "value": STANDARD.encode(left.to_string())});
        let txn = json!({"compare": compare, "success": [{"request_put": put}]});
        let answer = self.ask("txn", &txn).await?;
        Ok(answer["succeeded"].as_bool() == Some(true))
    }

    /// Removes the item.
    pub(crate) async fn forget(&self, item: &str) -> Result<(), StockError> {
        self.ask("deleterange", &json!({"key": key(item)}))
            .await
            .map(drop)
    }

    async fn ask(&self, path: &str, body: &Value) -> Result<Value, StockError> {
        let request = self.http.post(format!("{}/{path}", self.url)).json(body);
        Ok(request.send().await?.error_for_status()?.json().await?)
    }
}

fn key(item: &str) -> String {
    STANDARD.encode(format!("stock/{item}"))
}
