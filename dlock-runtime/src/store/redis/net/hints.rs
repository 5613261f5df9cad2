//! Passes hints from the server to the managers of this process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::watch;

use crate::{
    owner::{ClientId, OwnerId},
    store::{Hint, HintSink},
};

/// The managers that receive hints. Entries are removed when their managers are dropped.
#[derive(Default)]
pub(crate) struct Hints {
    sinks: Mutex<Vec<(ClientId, HintSink)>>,
    /// A grant in a hint has to be confirmed by a request, because the hint says nothing about replicas.
    must_ask: bool,
    /// No manager here acquires locks.
    are_unwanted: bool,
    attached: watch::Sender<()>,
}

impl Hints {
    pub(crate) fn new(must_ask: bool) -> Self {
        Self {
            must_ask,
            ..Self::default()
        }
    }

    /// Creates hints for a connection that acquires no locks: no channel is subscribed.
    pub(crate) fn unwanted() -> Self {
        Self {
            are_unwanted: true,
            ..Self::default()
        }
    }

    pub(crate) fn are_unwanted(&self) -> bool {
        self.are_unwanted
    }

    pub(crate) fn attach(&self, client: ClientId, sink: HintSink) {
        self.sinks().push((client, sink));
        self.attached.send_replace(());
    }

    /// Returns a receiver that changes when a manager was attached. Its channel is then subscribed on every
    /// connection.
    pub(crate) fn attached(&self) -> watch::Receiver<()> {
        self.attached.subscribe()
    }

    pub(crate) fn clients(&self) -> Vec<ClientId> {
        self.sinks().iter().map(|(client, _)| *client).collect()
    }

    /// Tells the managers of these clients to poll, because hints may have been missed.
    pub(crate) fn look_again(&self, clients: &[ClientId]) {
        for client in clients {
            self.pass_on(*client, HintSink::look_again);
        }
    }

    /// Passes on a push message of the server. It runs on the connection's own task and never waits.
    pub(crate) fn take(&self, push: &PushInfo) {
        if push.kind != PushKind::Message {
            return;
        }
        // The channel and the message.
        if let [_, Value::BulkString(message)] = push.data.as_slice() {
            self.hear(message);
        }
    }

    /// Passes on a message. Any client may publish, so the message can have any content.
    pub(crate) fn hear(&self, message: &[u8]) {
        if let Some(mut hint) = parse(message) {
            if self.must_ask {
                // A fence of 0 is older than every answer, so the hint only causes a request.
                (hint.fence, hint.number) = (0, 0);
            }
            self.pass_on(hint.owner.client(), |sink| sink.hint(&hint));
        }
    }

    fn pass_on(&self, client: ClientId, word: impl Fn(&HintSink) -> bool) {
        let sinks: Vec<_> = {
            let all = self.sinks();
            all.iter()
                .filter(|(other, _)| *other == client)
                .map(|(_, sink)| sink.clone())
                .collect()
        };
        // After the mutex is unlocked, because a manager may take long.
        if !sinks.iter().all(word) {
            self.sinks().retain(|(other, _)| *other != client);
        }
    }

    fn sinks(&self) -> MutexGuard<'_, Vec<(ClientId, HintSink)>> {
        // Every change under the mutex is complete before a panic is possible.
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parses `owner fence key`, or `owner fence+number key` for a waiter that joined shared holders. Returns `None` for
/// any other form.
pub(crate) fn parse(message: &[u8]) -> Option<Hint<'_>> {
    let text = str::from_utf8(message).ok()?;
    let (owner, rest) = text.split_once(' ')?;
    let (fence, key) = rest.split_once(' ')?;
    let (fence, number) = fence.split_once('+').unwrap_or((fence, fence));
    let read = |number: &str| {
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<u64>().ok().filter(|_| is_plain)
    };
    let owner = owner.parse::<OwnerId>().ok()?;
    let hint = Hint::new(key, owner, read(fence)?).number(read(number)?);
    (!key.is_empty()).then_some(hint)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicBool, atomic::Ordering};

    use proptest::prelude::*;

    use super::*;
    use crate::{random::SystemRandom, store::HintReceiver};

    #[derive(Default)]
    struct Heard {
        gone: AtomicBool,
        words: Mutex<Vec<String>>,
    }

    impl Heard {
        fn note(&self, word: String) -> bool {
            self.words.lock().unwrap().push(word);
            !self.gone.load(Ordering::Relaxed)
        }
    }

    impl HintReceiver for Heard {
        fn hint(&self, hint: &Hint<'_>) -> bool {
            self.note(format!("{} {}", hint.fence, hint.key))
        }

        fn look_again(&self) -> bool {
            self.note("look again".into())
        }
    }

    fn message(text: String) -> PushInfo {
        let data = vec![
            Value::BulkString(b"channel".into()),
            Value::BulkString(text.into()),
        ];
        PushInfo {
            kind: PushKind::Message,
            data,
        }
    }

    #[test]
    fn a_hint_goes_to_its_client_until_that_has_gone() {
        let (hints, heard) = (Hints::default(), Arc::new(Heard::default()));
        let clients = [ClientId::new(&SystemRandom), ClientId::new(&SystemRandom)];
        for client in clients {
            hints.attach(client, HintSink::new(heard.clone()));
        }
        let owner = OwnerId::new(clients[0], 3);
        hints.take(&message(format!("{owner} 17 a key")));
        hints.take(&message(format!("{owner} +17 a key")));
        hints.take(&message("hello".into()));
        let stranger = OwnerId::new(ClientId::new(&SystemRandom), 3);
        hints.take(&message(format!("{stranger} 17 a key")));
        assert_eq!(*heard.words.lock().unwrap(), ["17 a key"]);

        heard.gone.store(true, Ordering::Relaxed);
        hints.look_again(&clients);
        hints.look_again(&clients);
        assert_eq!(
            *heard.words.lock().unwrap(),
            ["17 a key", "look again", "look again"]
        );
        assert!(hints.clients().is_empty());
    }

    #[test]
    fn a_hint_that_must_not_be_believed_has_no_fence() {
        let (hints, heard) = (Hints::new(true), Arc::new(Heard::default()));
        let client = ClientId::new(&SystemRandom);
        hints.attach(client, HintSink::new(heard.clone()));
        hints.take(&message(format!("{} 17 k", OwnerId::new(client, 1))));
        assert_eq!(*heard.words.lock().unwrap(), ["0 k"]);
    }

    #[test]
    fn only_the_exact_form_is_a_hint() {
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        for text in [
            format!("{owner}  k"),
            format!("{owner} 1"),
            format!("{owner} 1 "),
            format!("{owner} -1 k"),
            format!("{owner} 1+ k"),
            format!("{owner} +1 k"),
            format!("{owner} 1+2+3 k"),
            format!("{owner} 18446744073709551616 k"),
            format!(" {owner} 1 k"),
            "x.1 1 k".into(),
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            parse(&bytes);
        }

        #[test]
        fn every_hint_reads_back(fence in any::<u64>(), number in any::<u64>(), key in "[^{}\\p{Cc}]{1,20}") {
            let owner = OwnerId::new(ClientId::new(&SystemRandom), fence);
            let text = format!("{owner} {fence} {key}");
            prop_assert_eq!(parse(text.as_bytes()), Some(Hint::new(&key, owner, fence)));
            let text = format!("{owner} {fence}+{number} {key}");
            let joined = Hint::new(&key, owner, fence).number(number);
            prop_assert_eq!(parse(text.as_bytes()), Some(joined));
        }
    }
}
