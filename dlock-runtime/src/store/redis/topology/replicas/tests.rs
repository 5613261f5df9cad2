//! Tests of leases that replicas may not have received, with a server that answers on time or never.

use std::{
    future::pending,
    pin::pin,
    sync::{Mutex, PoisonError},
};

use dlock_testkit::eventually;
use futures_util::FutureExt;
use tokio::sync::Notify;

use super::*;
use crate::{
    key::LockKey,
    owner::{ClientId, OwnerId},
    random::SystemRandom,
    store::{
        RenewRequest,
        redis::{
            RedisConfig,
            config::url::Location,
            fake::{Fake, courtesy},
            net::events::Events,
            topology::source::Source,
        },
    },
};

/// Longer than anything here takes, unless there is no answer.
const LONG: Duration = Duration::from_secs(30);

/// A server that claims enough replicas, and the keys of the leases that were renewed there.
struct Master {
    fake: Fake,
    renewed: Arc<Mutex<Vec<String>>>,
}

impl Master {
    /// It renews all leases except that of `gone`, and does not answer for that of `silent`. Replicas confirm when
    /// `may_confirm` is notified, or at once.
    async fn start(may_confirm: Option<&Arc<Notify>>) -> Self {
        let renewed = Arc::new(Mutex::new(Vec::new()));
        let (seen, may_confirm) = (renewed.clone(), may_confirm.cloned());
        let fake = Fake::start(move |words| {
            let (seen, may_confirm) = (seen.clone(), may_confirm.clone());
            async move {
                match words[0].as_str() {
                    // Without a key, it is a request of the connection itself.
                    "EVALSHA" if words.len() > 3 => {
                        let key = words[3].clone();
                        let is_silent = key == "dlock:{silent}";
                        let answer = format!(":{}\r\n", u8::from(key != "dlock:{gone}"));
                        seen.lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(key);
                        if is_silent {
                            pending::<()>().await;
                        }
                        answer
                    }
                    "WAIT" => {
                        if let Some(may_confirm) = may_confirm {
                            may_confirm.notified().await;
                        }
                        format!(":{}\r\n", words[1])
                    }
                    _ => courtesy(&words),
                }
            }
        })
        .await;
        Self { fake, renewed }
    }

    fn confirmer(&self) -> Confirmer {
        let config = Arc::new(self.config());
        let location = Location::parse(&config.url).unwrap();
        let home = Home::on(runtime::Handle::current(), LONG);
        let node = Node::start(
            Source::Fixed(location.endpoint(location.addresses()[0].clone())),
            &config,
            &Arc::default(),
            Events::new(config.url.clone()),
            &home,
        );
        Confirmer::start(node, 2, LONG, &home)
    }

    fn config(&self) -> RedisConfig {
        RedisConfig {
            response_timeout: LONG,
            ..RedisConfig::new(format!("redis://127.0.0.1:{}", self.fake.port))
        }
    }

    fn renewal(&self, key: &str) -> Command {
        let key = LockKey::new(key).unwrap();
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        let renewal = RenewRequest::new(&key, owner, LONG);
        Command::renew(&self.config(), &renewal)
    }

    fn renewed(&self) -> Vec<String> {
        self.renewed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The replicas may be those of another server than the one that granted the lease.
#[tokio::test]
async fn a_lease_that_is_gone_where_replicas_are_counted_is_not_confirmed() {
    let master = Master::start(None).await;
    let confirmer = master.confirmer();
    assert_eq!(
        confirmer.granted(master.renewal("here"), LONG).await,
        Ok(())
    );
    let gone = confirmer.granted(master.renewal("gone"), LONG).await;
    let error = gone.expect_err("its outcome is unknown");
    assert_eq!(error.kind(), StoreErrorKind::Disconnected, "{error}");
    assert!(error.message().ends_with("the lease had ended"), "{error}");
    assert!(!error.left_nothing(), "{error}");
}

/// If the request counted as one that was never sent, the lease would not be released.
#[tokio::test]
async fn a_lease_was_granted_also_if_nobody_could_be_asked_to_confirm_it() {
    let master = Master::start(None).await;
    let confirmer = master.confirmer();
    confirmer.node.close();
    let unsent = confirmer.renew(master.renewal("a"), LONG).await;
    let unsent = unsent.expect_err("there is no connection");
    assert!(unsent.left_nothing(), "{unsent}");
    let error = confirmer.granted(master.renewal("a"), LONG).await;
    let error = error.expect_err("there is no connection");
    assert!(error.message().ends_with(unsent.message()), "{error}");
    assert!(!error.left_nothing(), "{error}");
}

/// The commands would write for no caller, and delay the wait for replicas.
#[tokio::test]
async fn leases_are_not_renewed_whose_callers_have_given_up() {
    let may_confirm = Arc::new(Notify::new());
    let master = Master::start(Some(&may_confirm)).await;
    let confirmer = master.confirmer();
    let mut first = pin!(confirmer.renew(master.renewal("first"), LONG));
    assert!(first.as_mut().now_or_never().is_none());
    eventually(LONG, "it waits for replicas", async || {
        master.renewed().len() == 1
    })
    .await;
    let given_up = confirmer.renew(master.renewal("given_up"), LONG);
    assert!(given_up.now_or_never().is_none(), "it is behind the first");
    let last = confirmer.renew(master.renewal("last"), LONG);
    let (first, last, ()) = tokio::join!(first, last, async {
        may_confirm.notify_one();
        eventually(LONG, "the last one waits for replicas", async || {
            master.renewed().contains(&"dlock:{last}".to_owned())
        })
        .await;
        may_confirm.notify_one();
    });
    assert_eq!([first, last], [Ok(Renewal::Renewed), Ok(Renewal::Renewed)]);
    assert_eq!(master.renewed(), ["dlock:{first}", "dlock:{last}"]);
}

/// A request that was certainly not carried out would be sent again over another connection, or not be released.
#[tokio::test]
async fn what_ends_without_an_answer_may_have_been_carried_out() {
    let master = Master::start(None).await;
    let confirmer = master.confirmer();
    // A machine that stands still for a second sends it in time.
    let brief = Duration::from_secs(2);
    let late = confirmer.execute(master.renewal("silent"), brief).await;
    let error = late.expect_err("no server answers");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    assert!(!error.left_nothing(), "{error}");

    // The same applies to requests that were in progress when the task was interrupted.
    let confirmer = master.confirmer();
    let mut asked = pin!(confirmer.execute(master.renewal("silent"), LONG));
    assert!(asked.as_mut().now_or_never().is_none());
    confirmer.task.close();
    let ended = asked.now_or_never().expect("it does not wait for its time");
    let error = ended.expect_err("no task sends requests any more");
    assert_eq!(error.kind(), StoreErrorKind::Disconnected, "{error}");
    assert!(!error.left_nothing(), "{error}");
}

/// A command may have to wait for an earlier one, so that both fit into the time of a caller.
#[tokio::test]
async fn too_few_replicas_in_less_than_half_of_the_time_confirm_nothing() {
    let waits = Arc::new(Mutex::new(Vec::new()));
    let seen = waits.clone();
    let fake = Fake::start(move |words| {
        let seen = seen.clone();
        async move {
            match words[0].as_str() {
                "EVALSHA" if words.len() > 3 => ":1\r\n".to_owned(),
                "WAIT" => {
                    seen.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(words[1..].to_vec());
                    ":1\r\n".to_owned()
                }
                _ => courtesy(&words),
            }
        }
    })
    .await;
    let master = Master {
        fake,
        renewed: Arc::default(),
    };
    let confirmer = master.confirmer();
    let answer = confirmer.execute(master.renewal("a"), LONG).await;
    let error = answer.expect_err("one of two has confirmed it");
    assert_eq!(error.kind(), StoreErrorKind::TooFewReplicas, "{error}");
    assert_eq!(error.message(), "1 of 2 replicas confirmed within 9s");
    assert!(!error.left_nothing(), "{error}");
    let waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(*waits.last().unwrap(), ["2", "9000"]);
}
