//! A free key is acquired and released: dlock beside two writes by hand, and beside the usual recipe.
//!
//! A cycle of dlock is two writes as well, and nothing is read. The aim is about the smallest ones. Beyond it, the time of dlock is
//! spent in the ensemble: with 1 for a create and a delete by hand, a name that has a place in the queue and a text for
//! operators make 1.07. The transaction that creates the child makes 1.10 to 1.14: it also checks the base of the fencing tokens,
//! and writes the directory, whose state says whether the child is alone. `requests.rs` sends these requests by hand. The
//! rest, 0.06, is spent in the process, by the runtime and by the tasks of the store. A request changes threads once on
//! its way, as it does by hand: the client reads its socket on a thread of its own.
//!
//! Requests that ask whether the child is alone would cost more. A server carries out a read behind the write of the same session:
//! with the queue and the state of the child, the same two writes make 1.39.
//!
//! These are figures of servers that do not wait for their disks. Servers in use do, and then all of it makes 1.08.

use std::time::Instant;

use zookeeper_client::CreateMode;

use super::recipe::Recipe;
use super::requests::Requests;
use super::{Options, PATIENCE, connect, manager, node};
use crate::Failure;
use crate::apart::disk::Disk;
use crate::apart::report::Report;
use crate::apart::rounds::Rounds;

const KEY: &str = "order:42";
const BY_HAND: &str = "/by-hand";

pub(super) async fn measure(
    options: &Options,
    url: &str,
    disk: Disk,
    report: &mut Report,
) -> Result<(), Failure> {
    let manager = manager(url).await?;
    let client = connect(url).await?;
    client.mkdir(BY_HAND, &node(CreateMode::Persistent)).await?;
    let mut recipe = Recipe::new(client.clone(), "/recipe/order:42").await?;
    let requests = Requests::new(client.clone()).await?;
    let mut rounds: [Rounds; 4] = Default::default();
    // The first round fills caches.
    for round in 0..=options.rounds {
        let mut all: [Vec<f64>; 4] = Default::default();
        for _ in 0..options.sections {
            let begun = Instant::now();
            manager.lock(KEY).acquire().await?.release().await?;
            all[0].push(micros(begun));
        }
        for _ in 0..options.sections {
            let begun = Instant::now();
            let path = format!("{BY_HAND}/{KEY}");
            let options = node(CreateMode::Ephemeral);
            client.create(&path, b"", &options).await?;
            client.delete(&path, None).await?;
            all[1].push(micros(begun));
        }
        for _ in 0..options.sections {
            let begun = Instant::now();
            recipe.acquire().await?;
            recipe.release().await?;
            all[2].push(micros(begun));
        }
        for _ in 0..options.sections {
            let begun = Instant::now();
            requests.cycle().await?;
            all[3].push(micros(begun));
        }
        if round > 0 {
            for (rounds, times) in rounds.iter_mut().zip(all) {
                rounds.add(times);
            }
        }
    }
    manager.shutdown(PATIENCE).await;
    let [dlock, by_hand, recipe, requests] = rounds;
    report.time(format!("cycle by dlock, {disk}"), &dlock);
    report.time(format!("create and delete by hand, {disk}"), &by_hand);
    report.time(format!("cycle by the recipe, {disk}"), &recipe);
    report.time(format!("the requests of dlock by hand, {disk}"), &requests);
    report.ratio(
        format!("cycle / create and delete by hand, {disk}"),
        dlock.ratio(&by_hand),
        Some(1.15),
    );
    report.ratio(
        format!("cycle / by the recipe, {disk}"),
        dlock.ratio(&recipe),
        None,
    );
    report.ratio(
        format!("the requests of dlock / create and delete by hand, {disk}"),
        requests.ratio(&by_hand),
        None,
    );
    report.ratio(
        format!("cycle / the requests of dlock by hand, {disk}"),
        dlock.ratio(&requests),
        None,
    );
    Ok(())
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}
