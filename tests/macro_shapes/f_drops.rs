//! What is dropped before the lock is given back, and what after.

use std::time::Duration;

use dlock::{KeyPart, PartWriter, distributed_lock};

use crate::{
    Fault, Noisy, Result, record,
    record::{Events, events, store},
    say, under,
};

/// F1: borrowed arguments.
mod f1 {
    use super::*;

    #[distributed_lock(key = "borrowed:<text>")]
    async fn borrowed(text: &str, out: &mut Vec<u8>, slice: &[u8]) -> Result {
        tokio::task::yield_now().await;
        say("body");
        out.extend(slice);
        out.extend(text.bytes());
        Ok(())
    }

    #[tokio::test]
    async fn run() {
        let mut out = vec![];
        assert_eq!(
            under("borrowed:a", borrowed("a", &mut out, &[1])).await,
            Ok(())
        );
        assert_eq!(out, [1, b'a']);
    }
}

/// F2: arguments that the body does not mention are dropped under the lock too, and all of them in the order in which
/// they drop without it.
mod f2 {
    use super::*;

    /// A function twice: with the lock, and without it.
    macro_rules! twice {
        ($lock:meta, [$($before:tt)*] ($($arguments:tt)*) $output:ty, $body:block) => {
            #[$lock]
            $($before)* locked($($arguments)*) -> $output $body

            $($before)* plain($($arguments)*) -> $output $body
        };
    }

    /// What a locked function notes between acquisition and release.
    fn inside(events: &[String]) -> &[String] {
        let [first, inside @ .., last] = events else {
            panic!("{events:?}");
        };
        assert_eq!([first, last], ["acquire drops", "release drops"]);
        inside
    }

    mod of_a_function {
        use super::*;

        twice! {
            distributed_lock(key = "drops"),
            [async fn] (used: Noisy, _unused: Noisy, (_first, _second): (Noisy, Noisy), mut last: Vec<Noisy>) Result<usize>,
            {
                let local = Noisy::new("local");
                say("body");
                last.truncate(1);
                Ok(used.name().len() + local.name().len())
            }
        }

        #[tokio::test]
        async fn run() {
            let noisy = Noisy::new;
            let (_, locked) = record(async {
                let pair = (noisy("first"), noisy("second"));
                locked(noisy("used"), noisy("unused"), pair, vec![noisy("last")]).await
            })
            .await;
            let (_, plain) = record(async {
                let pair = (noisy("first"), noisy("second"));
                plain(noisy("used"), noisy("unused"), pair, vec![noisy("last")]).await
            })
            .await;
            assert_eq!(inside(&locked), plain);
            let last_first = ["last", "second", "first", "unused", "used"];
            assert_eq!(plain[2..], last_first.map(|name| format!("drop {name}")));
        }
    }

    /// A block owns its arguments in the order in which it mentions them.
    mod of_a_block {
        use super::*;
        use std::pin::Pin;

        twice! {
            distributed_lock(key = "drops"),
            [fn] (one: Noisy, two: Noisy, three: Noisy) Pin<Box<dyn Future<Output = Result<usize>>>>,
            {
                Box::pin(async move {
                    say("body");
                    Ok(two.name().len() + three.name().len() + one.name().len())
                })
            }
        }

        #[tokio::test]
        async fn run() {
            let noisy = Noisy::new;
            let (_, locked) =
                record(async { locked(noisy("one"), noisy("two"), noisy("three")).await }).await;
            let (_, plain) =
                record(async { plain(noisy("one"), noisy("two"), noisy("three")).await }).await;
            assert_eq!(inside(&locked), plain);
            assert_eq!(plain, ["body", "drop two", "drop three", "drop one"]);
        }
    }

    mod of_a_thread {
        use super::*;
        use crate::record_blocking;

        twice! {
            distributed_lock(key = "drops", on_lost = finish, manager = crate::manager()),
            [fn] (one: Noisy, _two: Noisy, three: Noisy) Result<usize>,
            {
                say("body");
                drop(three);
                let number: usize = "1".parse()?;
                Ok(number + one.name().len())
            }
        }

        #[test]
        fn run() {
            let noisy = Noisy::new;
            let (_, locked) =
                record_blocking(|| locked(noisy("one"), noisy("two"), noisy("three")));
            let (_, plain) = record_blocking(|| plain(noisy("one"), noisy("two"), noisy("three")));
            assert_eq!(inside(&locked), plain);
            assert_eq!(plain, ["body", "drop three", "drop two", "drop one"]);
        }
    }

    /// What nothing names, about which rustc warns, is dropped before the rest.
    mod of_what_is_unused {
        use super::*;

        #[distributed_lock(key = "drops")]
        #[expect(unused_variables, reason = "it is the case")]
        async fn locked(one: Noisy, two: Noisy, three: Noisy, _four: Noisy) -> Result<usize> {
            say("body");
            Ok(two.name().len())
        }

        #[tokio::test]
        async fn run() {
            let noisy = Noisy::new;
            let (_, events) = record(async {
                locked(noisy("one"), noisy("two"), noisy("three"), noisy("four")).await
            })
            .await;
            let expected = ["body", "drop three", "drop one", "drop four", "drop two"];
            assert_eq!(inside(&events), expected);
        }
    }

    impl KeyPart for Noisy {
        fn write_part(&self, to: &mut PartWriter<'_>) {
            to.push_str(self.name());
        }
    }

    #[distributed_lock(key = "<named>")]
    async fn only_in_the_key(named: Noisy) -> Result {
        say("body");
        Ok(())
    }

    #[tokio::test]
    async fn an_argument_that_only_the_key_names() {
        let (_, events) = record(async { only_in_the_key(Noisy::new("it")).await }).await;
        assert_eq!(events, ["acquire it", "body", "drop it", "release it"]);
    }
}

/// F3: a body that uses one field owns the others as well.
mod f3 {
    use super::*;

    struct Context {
        a: Noisy,
        #[expect(dead_code, reason = "it is what the body leaves behind")]
        b: Noisy,
    }

    #[distributed_lock(key = "fields")]
    async fn one_field(context: Context) -> Result {
        let a = context.a;
        say("body");
        drop(a);
        Ok(())
    }

    #[tokio::test]
    async fn run() {
        let (_, events) = record(async {
            let (a, b) = (Noisy::new("a"), Noisy::new("b"));
            one_field(Context { a, b }).await
        })
        .await;
        let expected = [
            "acquire fields",
            "body",
            "drop a",
            "drop b",
            "release fields",
        ];
        assert_eq!(events, expected);
    }
}

/// F4: what is bound to nothing cannot be owned by the body, and is dropped after the release. `async_trait` binds it.
mod f4 {
    use super::*;
    use async_trait::async_trait;

    #[distributed_lock(key = "nameless")]
    async fn nameless(_: Noisy, (used, _): (Noisy, Noisy)) -> Result {
        say("body");
        drop(used);
        Ok(())
    }

    #[async_trait]
    trait Nameless {
        async fn nameless(&self, _: Noisy) -> Result;
    }

    #[async_trait]
    impl Nameless for () {
        #[distributed_lock(key = "nameless")]
        async fn nameless(&self, _: Noisy) -> Result {
            say("body");
            Ok(())
        }
    }

    #[tokio::test]
    async fn run() {
        let (_, events) = record(async { ().nameless(Noisy::new("_")).await }).await;
        let expected = ["acquire nameless", "body", "drop _", "release nameless"];
        assert_eq!(events, expected);

        let (_, events) = record(async {
            nameless(Noisy::new("_"), (Noisy::new("used"), Noisy::new("rest"))).await
        })
        .await;
        let expected = [
            "acquire nameless",
            "body",
            "drop used",
            "release nameless",
            "drop rest",
            "drop _",
        ];
        assert_eq!(events, expected);
    }
}

/// F5: each way out of the body stays inside it.
mod f5 {
    use super::*;

    #[distributed_lock(key = "out:<text>")]
    async fn early(text: &str, _argument: Noisy) -> Result<u64> {
        let number: u64 = text.parse()?;
        say("body");
        if number > 9 {
            return Err(Fault::Refused);
        }
        let Some(rest) = number.checked_sub(2) else {
            return Ok(100);
        };
        let found = 'outer: loop {
            for found in 0.. {
                if found == rest {
                    break 'outer found;
                }
                if found > 3 {
                    continue 'outer;
                }
                tokio::task::yield_now().await;
            }
        };
        let block = 'block: {
            if found == 3 {
                break 'block 50;
            }
            found
        };
        Ok(block)
    }

    #[tokio::test]
    async fn run() {
        let cases = [
            ("5", Ok(50)),
            ("3", Ok(1)),
            ("1", Ok(100)),
            ("30", Err(Fault::Refused)),
        ];
        for (text, expected) in cases {
            let (output, events) = record(async { early(text, Noisy::new("it")).await }).await;
            assert_eq!(output, expected);
            let acquired = format!("acquire out:{text}");
            let released = format!("release out:{text}");
            assert_eq!(events, [&acquired, "body", "drop it", &released]);
        }
        let (output, events) = record(async { early("x", Noisy::new("it")).await }).await;
        assert!(matches!(output, Err(Fault::Number(_))));
        assert_eq!(events, ["acquire out:x", "drop it", "release out:x"]);
    }
}

/// F6: arguments that nothing uses are dropped while the store still has the lock.
mod f6 {
    use super::*;
    use dlock::store::memory::MemoryStore;

    /// Says, when it drops, what another process would find.
    struct Probe {
        name: &'static str,
        store: MemoryStore,
        events: Events,
    }

    impl Probe {
        fn new(name: &'static str) -> Self {
            let (store, events) = (store(), events());
            Self {
                name,
                store,
                events,
            }
        }

        #[distributed_lock(key = "given away", lease = _lease)]
        async fn consumed(self) -> Result {
            say("body");
            Ok(())
        }

        #[distributed_lock(key = "boxed")]
        async fn boxed(self: Box<Self>, _: u8) -> Result {
            say("body");
            Ok(())
        }
    }

    impl Drop for Probe {
        fn drop(&mut self) {
            let lock = if self.store.is_empty() {
                "free"
            } else {
                "held"
            };
            self.events.push(format!("drop {}: {lock}", self.name));
        }
    }

    struct Pair {
        one: Probe,
        two: Probe,
    }

    #[distributed_lock(key = "unused")]
    #[expect(unused_variables, reason = "it is the case")]
    async fn unused(one: Probe, (two, three): (Probe, Probe), number: u64) -> Result {
        say("body");
        Ok(())
    }

    #[distributed_lock(key = "fields")]
    #[expect(unused_variables, reason = "it is the case")]
    async fn fields(Pair { one, two: second }: Pair) -> Result {
        say("body");
        Ok(())
    }

    #[distributed_lock(key = "special")]
    async fn special(
        #[allow(unused_variables, reason = "it is the case")] one: Probe,
        #[allow(unused_mut, unused_variables, reason = "it is the case")] mut two: Vec<Probe>,
    ) -> Result {
        say("body");
        Ok(())
    }

    /// Used by an option, which is evaluated before the body, or after it.
    #[distributed_lock(
        key = "options",
        ttl = one.as_ref().map_or(Duration::from_secs(9), |_| Duration::from_secs(8)),
        on_error = |error| Err(format!("{error} of {}", two.name)),
    )]
    async fn options(one: Option<Probe>, two: Probe) -> Result<(), String> {
        say("body");
        Ok(())
    }

    #[distributed_lock(key = "refused", on_error = |error| format!("{error} of {name}"))]
    async fn in_text(name: String) -> String {
        say("body");
        String::new()
    }

    /// What a macro uses is used, though nothing names it.
    #[distributed_lock(key = "text")]
    async fn in_a_format(name: String, number: u8) -> Result<String> {
        say("body");
        Ok(format!("{name}{number}"))
    }

    #[tokio::test]
    async fn run() {
        let probe = Probe::new;
        let dropped = |events: Vec<String>| {
            let mut dropped = events;
            dropped.retain(|event| event.starts_with("drop"));
            dropped.sort_unstable();
            dropped
        };
        let (_, events) =
            record(async { unused(probe("one"), (probe("two"), probe("three")), 4).await }).await;
        let all = ["drop one: held", "drop three: held", "drop two: held"];
        assert_eq!(dropped(events), all);
        let (_, events) = record(async {
            let (one, two) = (probe("one"), probe("two"));
            fields(Pair { one, two }).await
        })
        .await;
        assert_eq!(dropped(events), ["drop one: held", "drop two: held"]);
        let (_, events) = record(async { special(probe("one"), vec![probe("two")]).await }).await;
        assert_eq!(dropped(events), ["drop one: held", "drop two: held"]);
        let (_, events) = record(async { probe("self").consumed().await }).await;
        assert_eq!(dropped(events), ["drop self: held"]);
        let (_, events) = record(async { Box::new(probe("self")).boxed(1).await }).await;
        assert_eq!(dropped(events), ["drop self: held"]);
        // What is left for `on_error` cannot be dropped before.
        let (_, events) = record(async { options(Some(probe("one")), probe("two")).await }).await;
        assert_eq!(dropped(events), ["drop one: held", "drop two: free"]);
        assert_eq!(under("refused", in_text(String::new())).await, "");
        let text = under("text", in_a_format("a".to_owned(), 1)).await;
        assert_eq!(text, Ok("a1".to_owned()));
    }
}

/// F10: what the last expression borrows from is dropped before what it borrows, and before the
/// release.
mod f10 {
    use super::*;
    use std::sync::Mutex;

    #[distributed_lock(key = "tail")]
    async fn tail(argument: Noisy) -> Result<usize> {
        let local = Noisy::new("local");
        say("body");
        Ok(Noisy::new("temporary").name().len() + local.name().len() + argument.name().len())
    }

    #[distributed_lock(key = "mutex")]
    async fn guard_in_the_tail() -> Result<u8> {
        let mutex = Mutex::new(3);
        say("body");
        Ok(*mutex.lock().unwrap())
    }

    #[distributed_lock(key = "match:<id>")]
    async fn matched(id: u8) -> Result<usize> {
        match Noisy::new("scrutinee").name() {
            "none" => Ok(0),
            name if id == 1 => {
                say("body");
                Ok(name.len())
            }
            _ => Err(Fault::Refused),
        }
    }

    #[tokio::test]
    async fn run() {
        let (_, events) = record(async { tail(Noisy::new("argument")).await }).await;
        let expected = [
            "acquire tail",
            "body",
            "drop temporary",
            "drop local",
            "drop argument",
            "release tail",
        ];
        assert_eq!(events, expected);
        assert_eq!(under("mutex", guard_in_the_tail()).await, Ok(3));
        let (output, events) = record(matched(1)).await;
        assert_eq!(output, Ok(9));
        let expected = [
            "acquire match:1",
            "body",
            "drop scrutinee",
            "release match:1",
        ];
        assert_eq!(events, expected);
    }
}
