//! What a key reads of its arguments, and when; names that are the attribute's own too.

use dlock::{KeyPart, PartWriter, distributed_lock};

use crate::{Result, assert_send, say, under};

/// C7: fields and methods.
mod c7 {
    use super::*;

    struct Tenant {
        name: String,
    }

    struct Order {
        tenant: Tenant,
        pair: (u8, (u8, u8)),
    }

    impl Order {
        fn tenant(&self) -> &Tenant {
            &self.tenant
        }

        fn into_number(self) -> u8 {
            self.pair.0
        }

        #[distributed_lock(key = "<self.tenant.name>/<self.pair.1.0>/<self.tenant().name.len()>")]
        async fn of_self(&self) -> Result<&str> {
            say("body");
            Ok(&self.tenant.name)
        }
    }

    #[distributed_lock(key = "<order.tenant.name>/<order.pair.1.1>/<order.tenant().name.len()>")]
    async fn of_argument(order: Order) -> Result<u8> {
        say("body");
        Ok(order.into_number())
    }

    #[distributed_lock(key = "<order.tenant.name>")]
    async fn behind_references(order: &&mut Box<Order>) -> Result<u8> {
        say("body");
        Ok(order.pair.0)
    }

    #[tokio::test]
    async fn run() {
        let order = Order {
            tenant: Tenant {
                name: "nord".to_owned(),
            },
            pair: (1, (2, 3)),
        };
        assert_eq!(under("nord/2/4", order.of_self()).await, Ok("nord"));
        let mut order = Box::new(order);
        assert_eq!(under("nord", behind_references(&&mut order)).await, Ok(1));
        assert_eq!(under("nord/3/4", of_argument(*order)).await, Ok(1));
    }
}

/// C8: the key is rendered before the body moves its arguments away.
mod c8 {
    use super::*;

    #[distributed_lock(key = "<name>/<order.0>")]
    async fn moved(name: String, order: (String, Vec<u8>)) -> Result<(String, Vec<u8>)> {
        say("body");
        let (id, lines) = order;
        drop(id);
        Ok((name, lines))
    }

    #[tokio::test]
    async fn run() {
        let moved = moved("a".to_owned(), ("b".to_owned(), vec![1]));
        assert_eq!(
            under("a/b", assert_send(moved)).await,
            Ok(("a".to_owned(), vec![1]))
        );
    }
}

/// C9: an argument that the body changes has in the key the value it came with.
mod c9 {
    use super::*;

    #[distributed_lock(key = "<name>/<count>")]
    async fn exclusive<'a>(name: &'a mut String, count: &mut u8) -> Result<&'a mut String> {
        say("body");
        name.push('!');
        *count += 1;
        Ok(name)
    }

    #[tokio::test]
    async fn run() {
        let (mut name, mut count) = ("a".to_owned(), 1);
        let changed = under("a/1", exclusive(&mut name, &mut count))
            .await
            .unwrap();
        changed.push('?');
        assert_eq!((name.as_str(), count), ("a!?", 2));
    }
}

/// C10: arguments and labels named as what the attribute makes.
mod c10 {
    use super::*;

    #[distributed_lock(key = "<key>:<guard>:<site>", on_error = |_| 0)]
    #[expect(clippy::too_many_arguments, reason = "all the names at once")]
    async fn names(
        key: u8,
        guard: u8,
        site: u8,
        output: u8,
        error: u8,
        acquiring: u8,
        released: u8,
        value: u8,
        lease: u8,
        __key: u8,
    ) -> u8 {
        say("body");
        'locked: {
            if key == 1 {
                break 'locked;
            }
            say("not left");
        }
        key + guard + site + output + error + acquiring + released + value + lease + __key
    }

    #[distributed_lock(key = "<lease>", lease = guard)]
    async fn lease_named_guard<'locked>(lease: &'locked str) -> Result<(&'locked str, String)> {
        say("body");
        Ok((lease, guard.key().to_string()))
    }

    #[tokio::test]
    async fn run() {
        let names = names(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
        assert_eq!(under("1:2:3", names).await, 55);
        let text = under("a", lease_named_guard("a")).await;
        assert_eq!(text, Ok(("a", "a".to_owned())));
    }
}

/// C11: items in the body do not reach what is around it.
mod c11 {
    use super::*;

    mod shadows {
        pub(super) struct Bar;
        pub(super) fn id() -> u8 {
            3
        }
    }

    #[distributed_lock(key = "items:<id>", lease = lease)]
    #[expect(clippy::items_after_statements, unused_macros, reason = "on purpose")]
    async fn items(id: u8) -> Result<String> {
        say("body");
        const SITE: u8 = 1;
        static __DLOCK_SITE: u8 = 2;
        use shadows::*;
        struct Result;
        struct Ok;
        enum Option {
            None,
            Some,
        }
        use Option::{None, Some};
        mod core {}
        mod dlock {}
        fn key() -> u8 {
            4
        }
        macro_rules! concat {
            ($($any:tt)*) => {
                compile_error!("the wrong one")
            };
        }
        let _ = (Bar, Result, Ok, None, Some);
        // What is imported hides the parameter here, and in the key it does not.
        let sum = SITE + __DLOCK_SITE + id() + key();
        std::result::Result::Ok(format!("{sum} {}", lease.key()))
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(
            under("items:5", items(5)).await,
            Ok("10 items:5".to_owned())
        );
    }
}

/// C12: a value of which several views could be a part of the key is taken as it is.
mod c12 {
    use super::*;

    struct Both(String);

    impl KeyPart for Both {
        fn write_part(&self, to: &mut PartWriter<'_>) {
            to.push_str("itself");
        }
    }

    impl std::ops::Deref for Both {
        type Target = str;

        fn deref(&self) -> &str {
            &self.0
        }
    }

    trait Part {
        fn write_part(&self, _: u8) {}
    }

    impl<T: ?Sized> Part for T {}

    #[distributed_lock(key = "<both>")]
    async fn several_views(both: Both) -> Result<usize> {
        say("body");
        Part::write_part(&both, 1);
        Ok(both.len())
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(
            under("itself", several_views(Both("text".to_owned()))).await,
            Ok(4)
        );
    }
}
