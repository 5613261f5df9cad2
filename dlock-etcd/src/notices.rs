//! Listens for operators who have ended a lease of this process by force: its holder then renews at once, and finds out.
//!
//! A message is a key that lasts for a minute, so a process that connects again reads those that it has missed. A message
//! that is lost costs the time until the next renewal. Any client that may write the keys of dlock can send one: it has a
//! lease renewed early, and changes nothing else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use dlock_net::{Tasks, Worker};
use dlock_runtime::store::{ClientId, Hint, HintSink, StoreError};
use tokio::{task::AbortHandle, time::sleep};

use crate::{
    config::Config,
    keys, ops,
    proto::{Answer, EventType, KeyValue, WatchCreateRequest},
    session::Session,
};

/// The pause before the watch begins again.
const PAUSE: Duration = Duration::from_millis(500);

/// The listeners of a store, one for each manager.
pub(crate) struct Notices {
    config: Arc<Config>,
    session: Session,
    tasks: Tasks,
    listeners: Mutex<HashMap<ClientId, AbortHandle>>,
}

impl Notices {
    pub(crate) fn new(worker: &Worker, config: Arc<Config>, session: Session) -> Self {
        Self {
            config,
            session,
            tasks: worker.tasks(),
            listeners: Mutex::default(),
        }
    }

    /// Begins to listen for a manager.
    pub(crate) fn attach(&self, client: ClientId, sink: HintSink) {
        let listener = Listener {
            range: keys::notices(&self.config.namespace, client),
            session: self.session.clone(),
            sink,
        };
        let task = self.tasks.spawn(async move { listener.listen().await });
        self.replace(client, Some(task.abort_handle()));
    }

    pub(crate) fn detach(&self, client: ClientId) {
        self.replace(client, None);
    }

    fn replace(&self, client: ClientId, task: Option<AbortHandle>) {
        // Every change is complete before any code can panic.
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = match task {
            Some(task) => listeners.insert(client, task),
            None => listeners.remove(&client),
        };
        if let Some(before) = before {
            before.abort();
        }
    }
}

/// The task of one manager.
struct Listener {
    range: (Vec<u8>, Vec<u8>),
    session: Session,
    sink: HintSink,
}

impl Listener {
    /// Passes messages on until the manager has ended.
    async fn listen(&self) {
        loop {
            match self.follow().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(target: "dlock::store", %error, "cannot listen for operators; it is tried again");
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Returns `true` if the manager has ended, and `false` if the watch has.
    async fn follow(&self) -> Result<bool, StoreError> {
        let conn = self.session.conn().await?;
        let answer = conn
            .read(&ops::read(vec![ops::get_all(&self.range)]))
            .await
            .map_err(StoreError::from)?;
        if !ops::keys_of(&answer, 0)?
            .iter()
            .all(|kv| self.send_hint(kv))
        {
            return Ok(true);
        }
        let create = WatchCreateRequest {
            key: self.range.0.clone(),
            range_end: self.range.1.clone(),
            start_revision: answer.header().revision + 1,
        };
        let mut answers = conn.watch(create).await?;
        loop {
            let answer = tokio::select! {
                answer = answers.next() => answer,
                () = conn.is_given_up() => return Ok(false),
            };
            let Ok(Some(answer)) = answer else {
                return Ok(false);
            };
            if answer.canceled {
                return Ok(false);
            }
            let written = answer.events.iter().filter_map(|event| {
                let kv = event.kv.as_ref()?;
                (event.kind == EventType::Put as i32).then_some(kv)
            });
            if !written.into_iter().all(|kv| self.send_hint(kv)) {
                return Ok(true);
            }
        }
    }

    /// Returns `false` if the manager has ended.
    fn send_hint(&self, kv: &KeyValue) -> bool {
        let owner = keys::owner_in(&kv.key);
        let key = std::str::from_utf8(&kv.value).ok();
        match (owner, key) {
            (Some(owner), Some(key)) => self.sink.hint(&Hint::new(key, owner, 0)),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use dlock_runtime::{
        random::SystemRandom,
        store::{HintReceiver, LockStore, OwnerId},
    };
    use dlock_testkit::{EtcdServer, eventually, within};
    use tokio::sync::mpsc;

    use super::*;
    use crate::scene::{LONG, Scene};

    #[tokio::test]
    async fn a_message_is_for_the_owner_in_its_name_and_the_key_in_its_value() {
        struct Heard(mpsc::UnboundedSender<(String, OwnerId, u64)>);

        impl HintReceiver for Heard {
            fn hint(&self, hint: &Hint<'_>) -> bool {
                let heard = (hint.key.to_owned(), hint.owner, hint.fence);
                self.0.send(heard).is_ok()
            }

            fn look_again(&self) -> bool {
                true
            }
        }

        let scene = Scene::alone();
        let (send, mut heard) = mpsc::unbounded_channel();
        let listener = Listener {
            range: keys::notices("n", scene.client()),
            session: scene.store.core.session.clone(),
            sink: HintSink::new(Arc::new(Heard(send))),
        };
        let owner = scene.owner(7);
        let message = |name: &str, value: &[u8]| KeyValue {
            key: name.into(),
            value: value.into(),
            ..KeyValue::default()
        };
        let to_owner = message(&format!("n//notice/{owner}"), b"order:42");
        assert!(listener.send_hint(&to_owner));
        let expected = ("order:42".to_owned(), owner, 0);
        assert_eq!(heard.try_recv(), Ok(expected));
        for foreign in [
            message("n//notice/by-hand", b"order:42"),
            message(&format!("n//notice/{owner}"), b"\xff"),
        ] {
            assert!(listener.send_hint(&foreign), "it goes on to listen");
            assert!(heard.try_recv().is_err());
        }
        drop(heard);
        assert!(!listener.send_hint(&to_owner), "the manager has ended");
    }

    #[tokio::test]
    async fn messages_of_before_and_of_later_are_heard_until_the_manager_leaves() {
        let server = EtcdServer::start().await;
        let client = ClientId::new(&SystemRandom);
        let mut scene = Scene::with(server.port(), |_| ());
        let owners = [0, 1, 2, 3].map(|number| scene.owner(number));
        let mine = |number: usize| format!("dlock//notice/{}", owners[number]);
        let others = format!("dlock//notice/{}", OwnerId::new(client, 1));
        let watches = async |count| {
            eventually(LONG, "it listens", async || server.watches().await == count).await;
        };
        watches(1).await;
        server.put(&others, "order:1").await;
        server.put(&mine(1), "order:1").await;
        server.delete(&mine(1)).await;
        server.put(&mine(2), "order:2").await;
        for number in [1, 2] {
            let heard = within(LONG, scene.heard.recv()).await.flatten();
            assert_eq!(heard, Some((owners[number], 0)));
        }
        // A manager that attaches again reads those that it has missed.
        let (send, mut heard) = mpsc::unbounded_channel();
        let hooks = scene.store.properties().hooks.unwrap();
        let sink = HintSink::new(Arc::new(crate::scene::Heard(send)));
        hooks.attach(scene.client(), sink);
        let missed = within(LONG, heard.recv()).await.flatten();
        assert_eq!(missed, Some((owners[2], 0)));
        watches(1).await;
        // One whose messages are not taken has ended.
        drop(heard);
        server.put(&mine(3), "order:3").await;
        watches(0).await;
        let (send, _heard) = mpsc::unbounded_channel();
        let sink = HintSink::new(Arc::new(crate::scene::Heard(send)));
        hooks.attach(scene.client(), sink);
        watches(1).await;
        hooks.detach(scene.client()).await;
        watches(0).await;
    }

    #[tokio::test]
    async fn a_listener_that_cannot_listen_says_why_and_tries_again() {
        dlock_testkit::log::begin();
        let _scene = Scene::alone();
        eventually(LONG, "it is tried again", async || {
            let lines = dlock_testkit::log::with("cannot listen for operators; it is tried again");
            lines.iter().filter(|line| line.contains("refused")).count() >= 2
        })
        .await;
    }
}
