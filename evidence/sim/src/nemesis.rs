//! Faults of servers, processes and connections.

use std::{sync::Arc, time::Duration};

use dlock_history::Promise;
use tokio::time::{Instant, sleep};

use crate::{
    flaw::Flaw,
    plan::{Amnesia, Jumps, LONGEST_JUMP, LONGEST_TTL},
    run::Hosts,
    world::{Weather, World},
};

/// How many processes there are at the most, with those that have ended.
const MOST_HOSTS: usize = 8;

#[derive(Clone, Copy, Debug)]
enum Blow {
    Weather,
    Cut,
    Reconnect,
    Away,
    Restart,
    Forget,
    SetClock,
    Kill,
    ShutDown,
    Freeze,
    Sleep,
}

/// Goes on until the chaos is over.
pub(crate) async fn rage(world: Arc<World>, mut hosts: Hosts) -> Hosts {
    let end = Instant::now() + world.plan.chaos;
    let mut blows = vec![Blow::Cut, Blow::Reconnect, Blow::ShutDown];
    let (plan, dice) = (&world.plan, &world.dice);
    let mut add = |is_there: bool, blow: Blow| blows.extend(is_there.then_some(blow));
    add(plan.storms, Blow::Weather);
    add(plan.storms, Blow::Weather);
    add(plan.restarts, Blow::Restart);
    add(plan.restarts, Blow::Away);
    let forgets = plan.amnesia != Amnesia::No || plan.flaw == Flaw::ForgetsSecretly;
    add(forgets, Blow::Forget);
    add(plan.jumps != Jumps::No, Blow::SetClock);
    add(plan.kills, Blow::Kill);
    add(plan.freezes, Blow::Freeze);
    add(plan.sleeps, Blow::Sleep);
    // When each of the servers that have forgotten is to be trusted again.
    let mut away_until = Instant::now();
    while Instant::now() < end {
        sleep(dice.time(2 * plan.pace).min(end - Instant::now())).await;
        let blow = dice.pick(&blows);
        if let Some(name) = strike(&world, &mut hosts, blow, &mut away_until) {
            world.count(|counts| counts.event(name));
        }
    }
    hosts
}

/// The fault, if there was one.
fn strike(
    world: &Arc<World>,
    hosts: &mut Hosts,
    blow: Blow,
    away_until: &mut Instant,
) -> Option<&'static str> {
    let (plan, dice) = (&world.plan, &world.dice);
    let node = dice.index(plan.nodes);
    let host = hosts.any(dice);
    match blow {
        Blow::Weather => {
            let often = dice.pick(&[0, 20, 100, 300]);
            let any = || dice.below(often + 1);
            let mut weather = Weather {
                loses: any(),
                loses_answers: any(),
                refuses: any(),
                doubles: any(),
                delays: any(),
                delays_answers: any(),
                loses_hints: any(),
                delays_hints: any(),
                doubles_hints: any(),
            };
            if plan.bad_hints {
                weather.loses_answers = 100 + any();
                weather.loses_hints = any();
                weather.delays_hints = 800;
                weather.doubles_hints = 300;
            }
            world.log(format_args!("{weather:?}"));
            world.state().weather = weather;
            (often > 0 || plan.bad_hints).then_some("weather")
        }
        Blow::Cut => {
            let time = dice.time(Duration::from_secs(10));
            let node = hosts.get(host).first_server + node;
            world.log(format_args!("p{host} cannot reach s{node} for {time:?}"));
            hosts.get(host).cut(node, time);
            Some("cut off")
        }
        Blow::Reconnect => {
            world.log(format_args!("p{host} connects to s{node} anew"));
            hosts.reconnect(host, node);
            Some("reconnection")
        }
        Blow::Away | Blow::Restart => {
            let time = dice.time(Duration::from_secs(5));
            world.log(format_args!("s{node} is away for {time:?}"));
            go_away(world, hosts, node, time);
            Some("restart")
        }
        Blow::Forget => forget(world, hosts, node, away_until),
        Blow::SetClock => set_clock(world, hosts, node),
        Blow::Kill => {
            if hosts.count() >= MOST_HOSTS {
                return None;
            }
            world.log(format_args!("p{host} is killed"));
            hosts.kill(host);
            hosts.start(world);
            Some("kill")
        }
        Blow::ShutDown => {
            if hosts.count() >= MOST_HOSTS || !dice.chance(300) {
                return None;
            }
            let limit = dice.time(Duration::from_secs(10));
            world.log(format_args!("p{host} shuts down within {limit:?}"));
            hosts.shut_down(world, host, limit);
            hosts.start(world);
            Some("shutdown")
        }
        Blow::Freeze => {
            let time = dice.time(Duration::from_secs(15));
            world.log(format_args!("p{host} stands still for {time:?}"));
            hosts.get(host).freeze(time);
            Some("standstill")
        }
        Blow::Sleep => {
            let time = dice.time(Duration::from_secs(10));
            world.log(format_args!("all processes sleep for {time:?}"));
            world.sleep_machine(time);
            world.all_are_late();
            Some("sleep")
        }
    }
}

/// A server restarts without its data.
fn forget(
    world: &World,
    hosts: &Hosts,
    node: usize,
    away_until: &mut Instant,
) -> Option<&'static str> {
    let (plan, dice) = (&world.plan, &world.dice);
    let mut name = "amnesia";
    let mut time = Duration::from_secs(1) + dice.time(Duration::from_secs(3));
    if plan.amnesia == Amnesia::StaysAway {
        // One at a time, and each for the longest that it may have promised.
        if *away_until > Instant::now() {
            return None;
        }
        name = "amnesia of one that stays away";
        time = LONGEST_TTL + LONGEST_TTL / 50;
        *away_until = Instant::now() + time + LONGEST_TTL;
        world.state().servers[node].barred_until = Instant::now() + time;
    } else if plan.amnesia == Amnesia::Yes {
        world.holds_only(Promise::Ordered, "a server has forgotten");
    }
    world.log(format_args!("s{node} forgets, and is away for {time:?}"));
    world.state().servers[node].server.forget();
    go_away(world, hosts, node, time);
    Some(name)
}

fn set_clock(world: &World, hosts: &mut Hosts, node: usize) -> Option<&'static str> {
    let (plan, dice) = (&world.plan, &world.dice);
    let time = dice.time(LONGEST_JUMP);
    let micros = i64::try_from(time.as_micros()).expect("it is short");
    let by = if plan.jumps == Jumps::Both && dice.chance(500) {
        world.holds_only(Promise::Ordered, "a clock was set forward");
        micros
    } else {
        // Not further in all than what is waited for in the end.
        if hosts.set_back + time > LONGEST_JUMP {
            return None;
        }
        hosts.set_back += time;
        -micros
    };
    world.log(format_args!("the clock of s{node} is set by {by} µs"));
    world.state().servers[node].server.set_clock(by);
    Some(if by > 0 {
        "clock set forward"
    } else {
        "clock set back"
    })
}

/// No process reaches the server for a while, and all connections to it break.
fn go_away(world: &World, hosts: &Hosts, node: usize, time: Duration) {
    {
        let mut state = world.state();
        let until = &mut state.servers[node].away_until;
        *until = (*until).max(Instant::now() + time);
    }
    for host in 0..hosts.count() {
        hosts.reconnect(host, node);
    }
}
