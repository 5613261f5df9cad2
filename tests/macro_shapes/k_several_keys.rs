//! Lists of keys.

use std::sync::Arc;

use async_trait::async_trait;
use dlock::{Lease, LockManager, distributed_lock};

use crate::{Result, assert_send, manager, record, say, under, while_held};

/// What happens while the locks of `acquired` are held, and how they go.
fn around(acquired: &[&str], released: &[&str]) -> Vec<String> {
    let acquired = acquired.iter().map(|key| format!("acquire {key}"));
    let released = released.iter().map(|key| format!("release {key}"));
    let body = std::iter::once("body".to_owned());
    acquired.chain(body).chain(released).collect()
}

/// K1: all are held in the body, asked for in their own order and given back in that of the list.
mod k1 {
    use super::*;

    #[distributed_lock(key = ["account:<from>", "account:<to>"], lease = lease)]
    async fn transfer(from: u64, to: u64) -> Result<Vec<String>> {
        say("body");
        Ok(keys(lease))
    }

    fn keys(lease: &Lease) -> Vec<String> {
        lease
            .fencing_tokens()
            .map(|(key, _)| key.to_string())
            .collect()
    }

    #[tokio::test]
    async fn run() {
        let (from, to) = ("account:7", "account:4");
        let (output, events) = record(assert_send(transfer(7, 4))).await;
        assert_eq!(output.unwrap(), [from, to]);
        assert_eq!(events, around(&[to, from], &[from, to]));
        let output = under("account:7", transfer(7, 7)).await;
        assert_eq!(output.unwrap(), [from]);
    }
}

/// K2: a list of one is that key, and a comma at the end is no second one.
mod k2 {
    use super::*;

    #[distributed_lock(key = ["order:<id>",])]
    async fn settle(id: u64) -> Result<u64> {
        say("body");
        Ok(id)
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("order:42", settle(42)).await, Ok(42));
    }
}

/// K3: names of patterns, fields and methods, and what the body moves.
mod k3 {
    use super::*;

    struct Shelf {
        name: String,
        row: u8,
    }

    impl Shelf {
        fn row(&self) -> u8 {
            self.row
        }

        #[distributed_lock(key = ["shelf:<self.name>", "row:<self.row()>", "item:<items.0>/<b>"])]
        async fn stock(self, items: (String, u8), [_, b]: [char; 2]) -> Result<(String, String)> {
            say("body");
            Ok((self.name, items.0))
        }
    }

    #[tokio::test]
    async fn run() {
        let shelf = Shelf {
            name: "top".to_owned(),
            row: 7,
        };
        let stock = shelf.stock(("apple".to_owned(), 1), ['x', 'y']);
        let (output, events) = record(stock).await;
        assert_eq!(output, Ok(("top".to_owned(), "apple".to_owned())));
        let sorted = ["item:apple/y", "row:7", "shelf:top"];
        let listed = ["shelf:top", "row:7", "item:apple/y"];
        assert_eq!(events, around(&sorted, &listed));
    }
}

/// K4: literals that a macro passes, alone or as a list, and names of its own.
mod k4 {
    use super::*;

    macro_rules! both {
        ($name:ident, $id:ident, $a:literal, $b:literal) => {
            #[distributed_lock(key = [$a, $b, "c:<id>"])]
            async fn $name($id: u8) -> Result<u8> {
                say("body");
                Ok($id)
            }
        };
    }
    both!(one_by_one, id, "a:<id>", r#"b"#);

    macro_rules! list {
        ($name:ident, $keys:expr) => {
            #[distributed_lock(key = $keys)]
            async fn $name(id: u8) -> Result<u8> {
                say("body");
                Ok(id)
            }
        };
    }
    list!(as_a_list, ["a:<id>", "b"]);

    #[tokio::test]
    async fn run() {
        let (output, events) = record(one_by_one(1)).await;
        assert_eq!(output, Ok(1));
        assert_eq!(events, around(&["a:1", "b", "c:1"], &["a:1", "b", "c:1"]));
        let (output, events) = record(as_a_list(1)).await;
        assert_eq!(output, Ok(1));
        assert_eq!(events, around(&["a:1", "b"], &["a:1", "b"]));
    }
}

/// K5: in a method that `async_trait` has boxed.
mod k5 {
    use super::*;

    #[async_trait]
    trait Bank {
        async fn transfer(&self, from: u64, to: &str) -> Result<u64>;
    }

    struct Branch(u64);

    #[async_trait]
    impl Bank for Branch {
        #[distributed_lock(key = ["branch:<self.0>:<from>", "branch:<self.0>:<to>"])]
        async fn transfer(&self, from: u64, to: &str) -> Result<u64> {
            say("body");
            let _ = to;
            Ok(self.0 + from)
        }
    }

    #[tokio::test]
    async fn run() {
        let bank: Box<dyn Bank> = Box::new(Branch(1));
        let (output, events) = record(bank.transfer(2, "9")).await;
        assert_eq!(output, Ok(3));
        let keys = ["branch:1:2", "branch:1:9"];
        assert_eq!(events, around(&keys, &keys));
    }
}

/// K6: with the other options.
mod k6 {
    use super::*;

    #[distributed_lock(
        key = ["a:<id>", "b:<id>"],
        ttl = "9s",
        wait = never,
        on_busy = Ok(None),
        manager = locks
    )]
    async fn skips(locks: &LockManager, id: u8) -> Result<Option<u8>> {
        say("body");
        Ok(Some(id))
    }

    #[distributed_lock(
        key = ["a:<name>", "b"],
        on_error = |error| error.to_string(),
        on_cancel = detach,
        lease = lease
    )]
    async fn detached(name: Arc<str>) -> String {
        say("body");
        lease.key().to_string()
    }

    #[tokio::test]
    async fn run() {
        let (output, events) = record(async {
            assert_eq!(skips(&manager(), 1).await, Ok(Some(1)));
            while_held("b:1", skips(&manager(), 1)).await
        })
        .await;
        assert_eq!(output, Ok(None));
        let mut expected = around(&["a:1", "b:1"], &["a:1", "b:1"]);
        // The second is known to be held in this process, and the store is not asked for it.
        let busy = ["acquire b:1", "acquire a:1", "release a:1", "release b:1"];
        expected.extend(busy.map(str::to_owned));
        assert_eq!(events, expected);

        let (output, events) = record(detached("x".into())).await;
        assert_eq!(output, "a:x");
        assert_eq!(events, around(&["a:x", "b"], &["a:x", "b"]));
    }
}
