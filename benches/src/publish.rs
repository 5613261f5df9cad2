//! How long a message takes from one connection to another: no hand-off can be faster.

use std::thread;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::PubSubStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::arguments::Settings;
use crate::clock::{nanos, now};
use crate::locker::{client, connect};
use crate::outcome::{Outcome, Record, Section};
use crate::{Failure, usage::Usage};

/// A message that takes longer was lost.
const LOST_AFTER: Duration = Duration::from_secs(5);

/// Publishes one message after another, each when the last has come.
pub(crate) async fn run(settings: &Settings) -> Result<(), Failure> {
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let (ready, subscribed) = oneshot::channel();
    let receiver = {
        let (url, channel, flavour) = (settings.url.clone(), settings.key.clone(), settings.rt);
        // With a runtime of its own, as another process has.
        thread::spawn(move || -> Result<(), Failure> {
            flavour.build()?.block_on(async {
                let messages = subscribe(&url, &channel).await?;
                ready.send(()).ok();
                receive(messages, &arrived).await;
                Ok(())
            })
        })
    };
    if subscribed.await.is_err() {
        return receiver.join().expect("what fails there is returned");
    }

    let mut connection = connect(&settings.url).await?;
    let mut command = redis::cmd("PUBLISH");
    command.arg(&settings.key).arg("x");
    let (start, before) = (now(), Usage::now());
    let end = start + nanos(settings.seconds);
    let mut record = Record::default();
    loop {
        if settings.think_us > 0 {
            // Not spun to the microsecond: what is asked is how fast idle processors wake.
            sleep(Duration::from_micros(settings.think_us)).await;
        }
        let sent = now();
        let (answer, arrival) = tokio::join!(
            command.query_async::<i64>(&mut connection),
            timeout(LOST_AFTER, arrivals.recv()),
        );
        answer?;
        let acquired = arrival?.ok_or("the subscription has ended")?;
        record.sections.push(Section {
            waited_from: sent,
            acquired,
            releasing: acquired,
            released: acquired,
        });
        if acquired >= end {
            break;
        }
    }
    let used = Usage::now().since(&before);
    // That ends the other thread as well.
    drop(arrivals);
    receiver.join().expect("what fails there is returned")?;

    let mut outcome = Outcome {
        peer: settings.peer.shown.clone(),
        tasks: 1,
        handover: settings.handover.to_string(),
        elapsed_s: settings.seconds.as_secs_f64(),
        drained: true,
        cpu_user_s: used.user.as_secs_f64(),
        cpu_sys_s: used.system.as_secs_f64(),
        ..Outcome::default()
    };
    outcome.count(&[record], end);
    outcome.print()
}

async fn subscribe(url: &str, channel: &str) -> Result<PubSubStream, Failure> {
    let mut subscription = client(url)?.get_async_pubsub().await?;
    subscription.subscribe(channel).await?;
    Ok(subscription.into_on_message())
}

/// Notes when messages come, until the receiver is dropped.
async fn receive(mut messages: PubSubStream, arrived: &mpsc::UnboundedSender<u64>) {
    loop {
        let message = tokio::select! {
            message = messages.next() => message,
            () = arrived.closed() => return,
        };
        if message.is_none() || arrived.send(now()).is_err() {
            return;
        }
    }
}
