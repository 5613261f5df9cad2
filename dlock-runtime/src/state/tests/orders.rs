//! Tests rules that hold under any order of events.

use proptest::prelude::*;

use super::*;

/// Something that happens to an attempt, in any order.
#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Sleep(u64),
    Wake,
    Hint,
    Tick,
    Grant,
    Busy,
    Fail,
    Renew(Result<Renewal, ()>),
    Close,
    Revoke,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12_000_u64).prop_map(Step::Pass),
        1 => (0..12_000_u64).prop_map(Step::Sleep),
        4 => Just(Step::Wake),
        2 => Just(Step::Hint),
        4 => Just(Step::Tick),
        3 => Just(Step::Grant),
        2 => Just(Step::Busy),
        2 => Just(Step::Fail),
        3 => Just(Step::Renew(Ok(Renewal::Renewed))),
        1 => Just(Step::Renew(Ok(Renewal::NotOwner))),
        2 => Just(Step::Renew(Err(()))),
        1 => Just(Step::Close),
        1 => Just(Step::Revoke),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// For all events, in any order: a lease is valid only within the TTL of a request that the store
    /// has confirmed. It is never valid again once it is lost, and leaving always ends.
    #[test]
    fn a_lease_is_never_believed_beyond_what_the_store_confirmed(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut desk = Desk::waiting(Wait::Forever);
        let mut question = None;
        let mut renewal = None;
        let mut confirmed: Option<Moment> = None;
        let mut lost = false;
        for step in steps {
            let effect = match step {
                Step::Pass(ms) => { desk.pass(Duration::from_millis(ms)); Effect::Nothing }
                Step::Sleep(ms) => { desk.now.boot += Duration::from_millis(ms); Effect::Nothing }
                Step::Wake => desk.on(Event::Woken),
                Step::Hint => desk.on(Event::LookAgain),
                Step::Tick => desk.on(Event::Tick),
                Step::Grant | Step::Busy | Step::Fail => match question.take() {
                    None => Effect::Nothing,
                    Some(sent) => {
                        let answer = match step {
                            Step::Grant => granted(),
                            Step::Busy => busy(None),
                            _ => Err(failed(StoreErrorKind::TimedOut)),
                        };
                        if matches!(step, Step::Grant) {
                            confirmed = Some(sent);
                        }
                        desk.answer(sent, answer)
                    }
                },
                Step::Renew(answer) => match renewal.take() {
                    None => Effect::Nothing,
                    Some(sent) => {
                        if answer == Ok(Renewal::Renewed) {
                            confirmed = Some(sent);
                        }
                        let answer = answer.map_err(|()| failed(StoreErrorKind::TimedOut));
                        desk.on(Event::Renewed { sent, answer })
                    }
                },
                Step::Close => desk.on(Event::Closed),
                Step::Revoke => desk.on(Event::CutShort),
            };
            match effect {
                Effect::Ask { .. } => question = Some(desk.now),
                Effect::Renew { .. } => renewal = Some(desk.now),
                _ => {}
            }
            desk.check();
            if let Some(held) = desk.lease(1) {
                let sent = confirmed.expect("a request was granted");
                prop_assert!(!lost, "broken promise: a lost lease came back");
                prop_assert!(!held.deadline.is_reached(desk.now), "broken promise: a lease is believed beyond its end");
                let latest = sent.plus(TRUSTED);
                prop_assert_eq!(held.deadline.later(latest), latest, "broken promise: a lease is believed beyond what the store confirmed");
            }
            lost |= desk.state.loss(AttemptId::numbered(1)).is_some();
        }
        let mut effect = desk.on(Event::Left);
        for _ in 0..200 {
            match effect {
                Effect::Release { .. } => effect = desk.on(Event::Released(None)),
                Effect::WaitUntil(at) => { desk.now = at; effect = desk.on(Event::Released(None)); }
                _ => break,
            }
        }
        prop_assert_eq!(effect, Effect::Forget(None));
        prop_assert!(desk.state.is_idle());
    }
}
