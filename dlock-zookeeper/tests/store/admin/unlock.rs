//! Forced releases: they end only the lease that was seen, the next waiter holds the key, and the old holder is told.

use dlock::{LockError, LostCause};
use dlock_admin::{Inspect, Unlocked};
use dlock_runtime::store::OwnerId;
use tokio::time::timeout;

use super::{Place, SOON, claim, seen, staying};
use crate::world::LIMIT;

#[tokio::test]
async fn the_next_waiter_holds_the_key_and_the_old_holder_is_told_at_once() {
    let place = Place::new("unlock").await;
    let inspector = place.inspector().await;
    let (one, other) = (place.manager("one").await, place.manager("other").await);
    // The second message finds the node of the first one.
    for _ in 0..2 {
        let guard = one.lock("job").acquire().await.unwrap();
        let waiting = tokio::spawn(other.lock("job").wait(LIMIT).acquire());
        let waits = async || place.children("/lock:job").await.len() == 2;
        dlock_testkit::eventually(LIMIT, "it waits", waits).await;
        let lock = seen(&inspector, "job").await;
        let unlocked = inspector.unlock(&lock, None).await.unwrap();
        assert_eq!(unlocked, Unlocked::Granted);
        let lost = timeout(SOON, guard.lost()).await.expect("it is told");
        let LockError::Lost { cause, .. } = &lost else {
            panic!("{lost:?}");
        };
        assert_eq!(*cause, LostCause::Revoked);
        let next = waiting.await.unwrap().unwrap();
        assert!(
            next.fencing_token() > guard.fencing_token(),
            "broken promise: the token did not grow"
        );
        next.ensure_held().unwrap();
        let lock = seen(&inspector, "job").await;
        let unlocked = inspector.unlock(&lock, None).await.unwrap();
        assert_eq!(unlocked, Unlocked::Freed);
        timeout(SOON, next.lost()).await.expect("it is told");
    }
    assert_eq!(place.children("/lock:job").await, [""; 0]);
}

#[tokio::test]
async fn only_the_lease_that_was_seen_is_ended() {
    let place = Place::new("seen").await;
    let inspector = place.inspector().await;
    let manager = place.manager("one").await;
    let guard = manager.lock("job").acquire().await.unwrap();
    let lock = seen(&inspector, "job").await;
    let name = place.children("/lock:job").await.remove(0);
    let path = place.path(&format!("/lock:job/{name}"));
    let (text, _) = place.client.get_data(&path).await.unwrap();
    guard.release().await.unwrap();
    let none = inspector.unlock(&lock, None).await.unwrap();
    assert_eq!(none, Unlocked::Changed);
    let later = place.manager("two").await;
    let later = later.lock("job").acquire().await.unwrap();
    let owner = lock.holder.as_ref().and_then(|it| it.owner);
    for holder in [None, owner] {
        let unlocked = inspector.unlock(&lock, holder).await.unwrap();
        assert_eq!(unlocked, Unlocked::Changed, "{holder:?}");
    }
    later.ensure_held().unwrap();
    later.release().await.unwrap();
    // The same owner has another lease, with another fence.
    let text = String::from_utf8(text).unwrap();
    let fence = lock.holder.as_ref().unwrap().fence;
    let text = text.replace(&fence.to_string(), &(fence + 1).to_string());
    let options = staying();
    let created = place.client.create(&path, text.as_bytes(), &options);
    created.await.unwrap();
    let unlocked = inspector.unlock(&lock, owner).await.unwrap();
    assert_eq!(unlocked, Unlocked::Changed);
    assert_eq!(place.children("/lock:job").await, [name]);
}

#[tokio::test]
async fn of_a_shared_lock_one_holder_or_all_are_ended() {
    let place = Place::new("catalogs").await;
    let [one, two, three] = [
        place.manager("one").await,
        place.manager("two").await,
        place.manager("three").await,
    ];
    let first = one.lock("catalog").shared().acquire().await.unwrap();
    let second = two.lock("catalog").shared().acquire().await.unwrap();
    let inspector = place.inspector().await;
    let lock = seen(&inspector, "catalog").await;
    let mut holders = lock.holders();
    let holder = holders.find(|it| it.label.as_ref().unwrap().starts_with("one@"));
    let owner = holder.unwrap().owner;
    let unlocked = inspector.unlock(&lock, owner).await.unwrap();
    assert_eq!(unlocked, Unlocked::StillShared);
    timeout(SOON, first.lost()).await.expect("it is told");
    second.ensure_held().unwrap();
    // A holder that has joined since is ended too, and an exclusive waiter is next.
    let joined = three.lock("catalog").shared().acquire().await.unwrap();
    place.put("catalog", 90, "exclusive").await;
    let unlocked = inspector.unlock(&lock, None).await.unwrap();
    assert_eq!(unlocked, Unlocked::Granted);
    for guard in [joined, second] {
        timeout(SOON, guard.lost()).await.expect("it is told");
    }
    let left = place.children("/lock:catalog").await;
    assert_eq!(left, [claim(90, "exclusive")]);
}

#[tokio::test]
async fn many_holders_and_the_child_of_another_program_are_ended() {
    let place = Place::new("many").await;
    place.create("", "").await;
    place.create("/lock:catalog", "").await;
    place.create("/lock:theirs", "").await;
    for number in 0..250 {
        place.put("catalog", number, "shared").await;
    }
    let theirs = format!("/lock:theirs/{}", claim(1, "exclusive"));
    place.create(&theirs, "mine").await;
    let inspector = place.inspector().await;
    for key in ["catalog", "theirs"] {
        let lock = seen(&inspector, key).await;
        let unlocked = inspector.unlock(&lock, None).await.unwrap();
        assert_eq!(unlocked, Unlocked::Freed, "{key}");
        let left = place.children(&format!("/lock:{key}")).await;
        assert_eq!(left, [""; 0], "{key}");
    }
    // A message for each owner.
    let (text, _) = place.client.get_data("/many/notice").await.unwrap();
    let lines = text.split(|byte| *byte == b'\n');
    assert_eq!(lines.filter(|it| !it.is_empty()).count(), 250);
}

#[tokio::test]
async fn a_message_of_another_program_ends_no_lease() {
    let place = Place::new("forged").await;
    let inspector = place.inspector().await;
    let manager = place.manager("one").await;
    let guard = manager.lock("job").acquire().await.unwrap();
    let owner: OwnerId = seen(&inspector, "job").await.holder.unwrap().owner.unwrap();
    let before = seen_text(&place).await;
    let notice = place.path("/notice");
    let options = staying();
    let text = format!("mine\n{owner} job\n");
    let created = place.client.create(&notice, text.as_bytes(), &options);
    created.await.unwrap();
    // The lease is renewed early, and that is all.
    dlock_testkit::eventually(SOON, "it renews", async || {
        seen_text(&place).await != before
    })
    .await;
    guard.ensure_held().unwrap();
    guard.release().await.unwrap();
}

/// The number of writes to the child of the holder.
async fn seen_text(place: &Place) -> i32 {
    let name = place.children("/lock:job").await.remove(0);
    let path = place.path(&format!("/lock:job/{name}"));
    let stat = place.client.check_stat(&path).await.unwrap();
    stat.unwrap().version
}
