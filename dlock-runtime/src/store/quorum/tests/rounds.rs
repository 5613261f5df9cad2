//! Votes that are split, and what a round leaves to later ones.

use super::*;

/// A task that went on to something else has asked, and the next one asks in its place.
#[tokio::test(start_paused = true)]
async fn an_old_question_releases_nothing_of_what_a_later_one_was_granted() {
    let stores = stores();
    let seen = views(&stores);
    for view in &seen {
        view.set(|way| way.mute = true);
    }
    let quorum = Quorum::of(seen.clone()).unwrap();
    let id = owner();
    let first = tokio::spawn({
        let quorum = quorum.clone();
        async move { ask(&quorum, id).await }
    });
    sleep(ms(400)).await;
    for view in &seen {
        view.set(|way| way.mute = false);
    }
    granted(ask(&quorum, id).await);
    first.await.unwrap().expect_err("no node has answered it");
    sleep(ms(100)).await;
    let other = Quorum::of(views(&stores)).unwrap();
    let answer = ask(&other, owner()).await.unwrap();
    assert!(matches!(answer, Acquisition::Busy(_)), "{answer:?}");
    let released = LockStore::release(&quorum, &key(), id).await;
    assert_eq!(released, Ok(Released::WasHeld));
    assert!(stores.iter().all(MemoryStore::is_empty));
}

/// The later question has not been granted either, and has to clean up for both.
#[tokio::test(start_paused = true)]
async fn what_two_questions_have_left_is_given_back() {
    let stores = stores();
    let seen = views(&stores);
    for view in &seen[..3] {
        view.set(|way| way.mute = true);
    }
    let quorum = Quorum::of(seen).unwrap();
    let id = owner();
    let first = tokio::spawn({
        let quorum = quorum.clone();
        async move { ask(&quorum, id).await }
    });
    sleep(ms(100)).await;
    ask(&quorum, id).await.expect_err("only two answer");
    first.await.unwrap().expect_err("only two answer");
    for store in &stores[3..] {
        assert!(store.is_empty());
    }
}
