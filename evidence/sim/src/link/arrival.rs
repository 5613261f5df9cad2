//! The server's end of a connection: what arrives is carried out, and answers and hints set out.

use std::{sync::Arc, time::Duration};

use dlock::store::{AcquireOutcome, Hint, HintSink};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    disconnected,
    message::{Answer, Command, Fate, Message, Reply},
};
use crate::{
    flaw::Flaw, host::Host, plan::LONGEST_WAY, server::Notice, verdict::Finding, world::World,
};

/// A request is at the server.
pub(super) fn arrive(world: &Arc<World>, host: &Arc<Host>, node: usize, message: Message) {
    let Message {
        command,
        fate,
        mut reply,
        ..
    } = message;
    let is_away = world.state().servers[node].away_until > Instant::now();
    world.count(|counts| {
        counts.request(if is_away { "swallowed" } else { fate.name() });
    });
    let mut send = |reply_to_send: Reply, after: Duration| {
        let Some(reply) = reply.take() else { return };
        let host = host.clone();
        let deliver = move |reply_to_send| drop(reply.send(reply_to_send));
        if after.is_zero() && host.frozen_until().is_none() {
            return deliver(reply_to_send);
        }
        tokio::spawn(async move {
            sleep(after).await;
            while let Some(until) = host.frozen_until() {
                sleep_until(until).await;
            }
            deliver(reply_to_send);
        });
    };
    if is_away {
        return send(Reply::Silence, Duration::ZERO);
    }
    match fate {
        Fate::Lost { told: true } => send(Reply::Answer(Err(disconnected())), Duration::ZERO),
        Fate::Lost { told: false } => send(Reply::Silence, Duration::ZERO),
        Fate::Answered(after) => {
            let answer = carry_out(world, node, &command);
            send(Reply::Answer(Ok(answer)), after);
        }
        Fate::Doubled(after) => {
            let answer = carry_out(world, node, &command);
            send(Reply::Answer(Ok(answer)), after);
            if world.plan.old_connections {
                let (world, late) = (world.clone(), world.dice.time(LONGEST_WAY / 2));
                tokio::spawn(async move {
                    sleep(late).await;
                    drop(carry_out(&world, node, &command));
                });
            } else {
                drop(carry_out(world, node, &command));
            }
        }
        Fate::AnswerLost { told } => {
            drop(carry_out(world, node, &command));
            let reply = if told {
                Reply::Answer(Err(disconnected()))
            } else {
                Reply::Silence
            };
            send(reply, Duration::ZERO);
        }
        Fate::Refused { error, done } => {
            if done {
                drop(carry_out(world, node, &command));
            }
            send(Reply::Answer(Err(error)), Duration::ZERO);
        }
    }
}

fn carry_out(world: &Arc<World>, node: usize, command: &Command) -> Answer {
    let elapsed = world.elapsed();
    let mut state = world.state();
    let server = &mut state.servers[node].server;
    let (answer, notices) = match command {
        Command::Acquire(question) => {
            let (mut answer, notices) = server.acquire(question, elapsed);
            if world.plan.flaw == Flaw::AnswersForOthers
                && world.dice.chance(20)
                && let AcquireOutcome::Busy(holder) = &answer
                && holder.fence > 0
            {
                let fence = holder.fence;
                answer = AcquireOutcome::granted(fence);
            }
            (Answer::Acquired(answer), notices)
        }
        Command::Renew(several) => {
            let renewed = several
                .iter()
                .map(|it| server.renew(&it.key, it.owner, it.ttl, &it.label, elapsed));
            (Answer::Renewed(renewed.collect()), Vec::new())
        }
        Command::Release(key, owner) => {
            let (answer, notices) = server.release(key, *owner, elapsed);
            (Answer::Released(answer), notices)
        }
        Command::Raise(key, owner, fences) => {
            let answer = server.raise(key, *owner, *fences, elapsed);
            (Answer::Raised(answer), Vec::new())
        }
    };
    let passed_over = match command {
        Command::Release(key, _) => server.keeps_out(key, elapsed).then_some(key),
        _ => None,
    };
    let told = notices.into_iter().filter_map(|notice| {
        let sink = state.servers[node].sinks.get(&notice.owner.client());
        Some((sink?.clone(), notice))
    });
    let told: Vec<_> = told.collect();
    drop(state);
    log_answer(world, node, &answer);
    if let Some(key) = passed_over {
        let what = format!("the first waiter of {key} at s{node}, which others share");
        world.finds(Finding::Stuck(what));
    }
    for (to, notice) in &told {
        tell(world, node, to, notice);
    }
    answer
}

fn log_answer(world: &World, node: usize, answer: &Answer) {
    match answer {
        // Without the label, in which the machine is named.
        Answer::Acquired(AcquireOutcome::Busy(holder)) => world.log(format_args!(
            "  s{node}: busy, ttl {:?}, place {:?}, fence {}, last {}",
            holder.ttl, holder.position, holder.fence, holder.last_fence
        )),
        Answer::Acquired(granted) => world.log(format_args!("  s{node}: {granted:?}")),
        Answer::Renewed(renewed) => world.log(format_args!("  s{node}: {renewed:?}")),
        Answer::Released(released) => world.log(format_args!("  s{node}: {released:?}")),
        Answer::Raised(raised) => world.log(format_args!("  s{node}: {raised:?}")),
    }
}

/// Notifies a waiter, if the network passes it on.
fn tell(world: &Arc<World>, node: usize, to: &(Arc<Host>, HintSink), notice: &Notice) {
    let (dice, weather) = (&world.dice, world.state().weather);
    let times = if dice.chance(weather.loses_hints) {
        0
    } else if dice.chance(weather.doubles_hints) {
        2
    } else {
        1
    };
    world.count(|counts| counts.hint(times));
    for _ in 0..times {
        let mut way = world.plan.distance + dice.time(Duration::from_micros(300));
        if dice.chance(weather.delays_hints) {
            way += if world.plan.bad_hints {
                Duration::from_millis(1_000 + dice.below(2_000))
            } else {
                dice.time(LONGEST_WAY)
            };
        }
        world.log(format_args!(
            "  s{node}>p{}: hint {} {} fence {} number {} [{way:?}]",
            to.0.number,
            notice.key,
            world.name(notice.owner),
            notice.fence,
            notice.number
        ));
        let ((host, sink), notice) = (to.clone(), notice.clone());
        tokio::spawn(async move {
            sleep(way).await;
            while let Some(until) = host.frozen_until() {
                sleep_until(until).await;
            }
            if !host.is_dead() && !host.is_cut(node) {
                let hint = Hint::new(&notice.key, notice.owner, notice.fence);
                let _: bool = sink.hint(&hint.number(notice.number));
            }
        });
    }
}
