//! Tests of the judge of histories.

use super::*;

fn section(token: i64, entered: u64, left: u64) -> Section {
    Section {
        key: "order:42".to_owned(),
        mode: Mode::Exclusive,
        process: 0,
        task: 0,
        token,
        asked: Duration::ZERO,
        entered: Duration::from_millis(entered),
        left: Duration::from_millis(left),
        end: End::Finished,
    }
}

fn write(token: i64, accepted: bool) -> Write {
    Write {
        key: "order:42".to_owned(),
        process: 0,
        task: 0,
        token,
        accepted,
    }
}

fn of(sections: &[Section]) -> History {
    History {
        sections: sections.to_vec(),
        ..History::default()
    }
}

#[test]
fn one_after_the_other_is_well() {
    let history = of(&[section(3, 20, 30), section(1, 0, 10), section(2, 10, 20)]);
    assert_eq!(history.judge(Promise::Exclusive), []);
}

#[test]
fn an_overlap_is_found_behind_a_short_section() {
    let (long, short, late) = (section(1, 0, 100), section(2, 10, 11), section(3, 50, 60));
    let found = of(&[long.clone(), short.clone(), late.clone()]).judge(Promise::Exclusive);
    let overlaps = [
        Violation::Overlap(long.clone(), short),
        Violation::Overlap(long, late),
    ];
    assert_eq!(found, overlaps);
}

#[test]
fn two_that_begin_and_end_together_overlap() {
    let (a, b) = (section(1, 5, 9), section(2, 5, 9));
    let found = of(&[a.clone(), b.clone()]).judge(Promise::Exclusive);
    assert_eq!(found, [Violation::Overlap(a, b)]);
}

#[test]
fn sections_of_other_keys_do_not_meet() {
    let mut other = section(1, 0, 100);
    other.key = "order:7".to_owned();
    assert_eq!(
        of(&[section(1, 0, 100), other]).judge(Promise::Exclusive),
        []
    );
}

#[test]
fn a_token_that_goes_back_is_found() {
    let (a, b) = (section(2, 0, 10), section(1, 10, 20));
    let history = of(&[a.clone(), b.clone()]);
    assert_eq!(
        history.judge(Promise::Exclusive),
        [Violation::TokenNotGreater(a, b)]
    );
    assert_eq!(history.judge(Promise::Fenced), []);
}

#[test]
fn a_token_that_is_given_twice_is_found_in_every_world() {
    let (a, b) = (section(1, 0, 10), section(1, 10, 20));
    for promise in [Promise::Exclusive, Promise::Fenced] {
        let found = of(&[a.clone(), b.clone()]).judge(promise);
        assert_eq!(found, [Violation::TokenTwice(a.clone(), b.clone())]);
    }
}

#[test]
fn who_asked_later_has_a_greater_token_where_a_store_may_forget() {
    let (a, mut b) = (section(5, 10, 20), section(4, 15, 25));
    b.asked = Duration::from_millis(10);
    let both = |b: &Section| of(&[a.clone(), b.clone()]).judge(Promise::Ordered);
    assert_eq!(
        both(&b),
        [],
        "who asked before may have been granted it before"
    );
    b.asked = Duration::from_millis(11);
    let wrong = Violation::TokenNotGreater(a.clone(), b.clone());
    assert_eq!(both(&b), [wrong]);
    b.token = 6;
    assert_eq!(both(&b), [], "an overlap is none of it");
}

#[test]
fn a_promise_may_hold_at_some_times_only() {
    let sections = [section(1, 0, 10), section(2, 5, 20), section(3, 15, 30)];
    let promise = |at: Duration| match at.as_millis() {
        5 => Promise::Ordered,
        _ => Promise::Exclusive,
    };
    let [_, b, c] = sections.clone();
    let found = of(&sections).judge_by(promise, &[]);
    assert_eq!(found, [Violation::Overlap(b, c)]);
}

/// The store may have returned to an earlier state between 10 and 40, and leases end by 50.
fn after_a_return(history: &History) -> Vec<Violation> {
    let millis = Duration::from_millis;
    let promise = |at: Duration| match at.as_millis() {
        ..10 | 51.. => Promise::Exclusive,
        _ => Promise::Ordered,
    };
    let back = Return {
        from: millis(10),
        until: millis(40),
        lasts: millis(30),
    };
    history.judge_by(promise, &[back])
}

fn asked(at: u64, section: Section) -> Section {
    Section {
        asked: Duration::from_millis(at),
        ..section
    }
}

#[test]
fn who_joins_sharers_that_a_store_brought_back_has_their_token() {
    let wrong = |before: &Section, section: &Section| {
        [Violation::TokenNotGreater(before.clone(), section.clone())]
    };
    let judge = |sections: &[&Section]| {
        let sections: Vec<_> = sections.iter().map(|it| (*it).clone()).collect();
        after_a_return(&of(&sections))
    };
    let (first, lost) = (permit(3, 4, 6), section(5, 12, 15));
    let joiner = asked(20, permit(3, 30, 40));
    let later = asked(45, permit(3, 60, 70));
    assert_eq!(judge(&[&first, &lost, &joiner]), []);
    assert_eq!(
        judge(&[&first, &lost, &joiner, &later]),
        [],
        "one after another"
    );

    assert_eq!(
        judge(&[&lost, &joiner]),
        wrong(&lost, &joiner),
        "nobody is there"
    );
    assert_eq!(
        judge(&[&first, &lost, &later]),
        wrong(&lost, &later),
        "nobody is there any more"
    );
    let remembered = section(4, 7, 9);
    assert_eq!(
        judge(&[&first, &remembered, &lost, &joiner]),
        wrong(&remembered, &joiner)
    );
    let new = section(5, 41, 42);
    let late = asked(43, permit(3, 45, 50));
    assert_eq!(
        judge(&[&first, &joiner, &new, &late]),
        wrong(&new, &late),
        "granted after the return"
    );
    let exclusive = asked(20, section(3, 30, 40));
    let before = permit(2, 4, 11);
    assert_eq!(
        judge(&[&before, &lost, &exclusive]),
        wrong(&lost, &exclusive)
    );
}

#[test]
fn of_two_that_are_granted_together_the_one_that_asked_later_may_begin_first() {
    let lost = section(5, 12, 15);
    let second = asked(20, permit(3, 30, 40));
    let wrong = [Violation::TokenNotGreater(lost.clone(), second.clone())];
    for (asked_at, entered, is_well) in [(11, 31, true), (13, 31, false), (11, 61, false)] {
        let first = asked(asked_at, permit(3, entered, entered + 9));
        let found = after_a_return(&of(&[lost.clone(), first, second.clone()]));
        assert_eq!(found.is_empty(), is_well, "{asked_at} {entered}");
        assert!(is_well || found[0] == wrong[0]);
    }
}

#[test]
fn who_joins_a_holder_that_had_no_section_has_a_token_that_this_may_have_had() {
    let lost = section(5, 12, 15);
    let joiner = asked(20, permit(3, 30, 40));
    let unseen = Unseen {
        key: lost.key.clone(),
        tokens: 2..=3,
        left: Duration::from_millis(5),
    };
    let judge = |joiner: &Section, unseen: Unseen| {
        let mut history = of(&[lost.clone(), joiner.clone()]);
        history.unseen = vec![unseen];
        after_a_return(&history)
    };
    assert_eq!(judge(&joiner, unseen.clone()), []);
    let wrong = [Violation::TokenNotGreater(lost.clone(), joiner.clone())];
    let other_tokens = Unseen {
        tokens: 1..=2,
        ..unseen.clone()
    };
    assert_eq!(judge(&joiner, other_tokens), wrong);
    let other_key = Unseen {
        key: "order:7".to_owned(),
        ..unseen.clone()
    };
    assert_eq!(judge(&joiner, other_key), wrong);
    let late = asked(20, permit(3, 36, 40));
    let wrong = [Violation::TokenNotGreater(lost.clone(), late.clone())];
    assert_eq!(judge(&late, unseen.clone()), wrong, "its lease has ended");
    let exclusive = asked(20, section(3, 30, 40));
    let wrong = [Violation::TokenNotGreater(lost.clone(), exclusive.clone())];
    assert_eq!(judge(&exclusive, unseen), wrong, "nobody joins");
}

#[test]
fn a_history_that_runs_backwards_is_none() {
    let wrong = section(1, 10, 5);
    let found = of(std::slice::from_ref(&wrong)).judge(Promise::Fenced);
    assert_eq!(found, [Violation::Backwards(wrong)]);
}

#[test]
fn who_enters_before_it_asked_is_none() {
    let mut wrong = section(1, 10, 20);
    wrong.asked = Duration::from_millis(11);
    let found = of(std::slice::from_ref(&wrong)).judge(Promise::Fenced);
    assert_eq!(found, [Violation::Backwards(wrong.clone())]);
    wrong.asked = wrong.entered;
    assert_eq!(of(&[wrong]).judge(Promise::Exclusive), []);
}

#[test]
fn sections_of_no_length_at_one_moment_follow_each_other() {
    let history = of(&[section(2, 5, 5), section(1, 5, 5), section(3, 5, 9)]);
    assert_eq!(history.judge(Promise::Exclusive), []);
    let (long, none) = (section(1, 5, 9), section(2, 5, 5));
    let found = of(&[long.clone(), none.clone()]).judge(Promise::Exclusive);
    assert_eq!(
        found,
        [Violation::Overlap(long, none)],
        "the first was inside"
    );
}

#[test]
fn a_write_of_nobody_is_found_even_if_it_only_refuses_others() {
    let mut history = of(&[section(1, 0, 10), section(3, 10, 20)]);
    history.writes = vec![write(1, true), write(3, true), write(1, false)];
    assert_eq!(history.judge_writers(), []);
    let mut other_task = write(3, true);
    other_task.task = 1;
    let mut other_process = write(3, true);
    other_process.process = 1;
    let mut other_key = write(3, true);
    other_key.key = "order:7".to_owned();
    let strays = [other_task, other_process, other_key, write(4, true)];
    history.writes.extend(strays.clone());
    history.writes.push(write(3, false));
    assert_eq!(history.judge(Promise::Exclusive), []);
    assert_eq!(history.judge_writers(), strays.map(Violation::Stray));
}

#[test]
fn a_resource_that_goes_back_or_refuses_the_newest_is_found() {
    let mut history = of(&[]);
    for (token, accepted) in [(1, true), (3, true), (2, false), (3, true)] {
        history.writes.push(write(token, accepted));
    }
    assert_eq!(history.judge(Promise::Fenced), []);
    assert_eq!(history.refused(), 1);
    history.writes.push(write(2, true));
    history.writes.push(write(4, false));
    let wrong = [
        Violation::WentBack(write(3, true), write(2, true)),
        Violation::WronglyRefused(write(4, false)),
    ];
    assert_eq!(history.judge(Promise::Fenced), wrong);
}

#[test]
fn the_register_takes_nothing_from_who_is_late() {
    let register = Register::default();
    let write = |token| register.write("order:42", [1, 2], token);
    assert!(write(5) && write(5) && write(6));
    assert!(!write(5));
    assert!(register.write("order:7", [1, 2], 1));
    let history = History {
        writes: register.writes(),
        ..History::default()
    };
    assert_eq!(history.judge(Promise::Fenced), []);
    assert_eq!((history.writes.len(), history.refused()), (5, 1));
}

fn shared(token: i64, entered: u64, left: u64) -> Section {
    Section {
        mode: Mode::Shared,
        ..section(token, entered, left)
    }
}

fn permit(token: i64, entered: u64, left: u64) -> Section {
    Section {
        mode: Mode::Permits(2),
        ..section(token, entered, left)
    }
}

#[test]
fn those_that_share_a_key_are_there_together_with_one_token() {
    let history = of(&[
        shared(1, 0, 10),
        permit(1, 5, 20),
        shared(1, 6, 30),
        permit(1, 10, 20),
        shared(1, 40, 50),
        section(2, 50, 60),
        shared(3, 60, 70),
    ]);
    assert_eq!(history.judge(Promise::Exclusive), []);
}

#[test]
fn an_exclusive_section_meets_no_other_whichever_is_first() {
    let (reader, other) = (shared(1, 0, 50), shared(1, 1, 5));
    let (writer, late) = (section(2, 10, 90), shared(3, 60, 70));
    let all = [reader.clone(), other, writer.clone(), late.clone()];
    let found = of(&all).judge(Promise::Exclusive);
    let overlaps = [
        Violation::Overlap(reader, writer.clone()),
        Violation::Overlap(writer, late),
    ];
    assert_eq!(found, overlaps);
    assert_eq!(of(&all).judge(Promise::Fenced), []);
}

#[test]
fn one_permit_too_many_is_found() {
    let (a, b, c) = (permit(1, 0, 20), permit(1, 5, 30), permit(1, 10, 15));
    let found = of(&[a.clone(), b.clone(), c.clone()]).judge(Promise::Exclusive);
    assert_eq!(found, [Violation::TooMany(b, c)]);
    let next = permit(1, 20, 25);
    let found = of(&[a.clone(), permit(1, 5, 30), next]).judge(Promise::Exclusive);
    assert_eq!(found, []);
    let fewer = Section {
        mode: Mode::Permits(1),
        ..permit(1, 10, 15)
    };
    let found = of(&[a.clone(), fewer.clone()]).judge(Promise::Exclusive);
    assert_eq!(found, [Violation::TooMany(a, fewer)]);
}

#[test]
fn two_tokens_together_are_found_and_one_on_both_sides_of_an_exclusive_section() {
    let (a, b) = (shared(1, 0, 20), permit(2, 10, 30));
    let found = of(&[a.clone(), b.clone()]).judge(Promise::Exclusive);
    assert_eq!(found, [Violation::TokensDiffer(a.clone(), b)]);
    let (writer, late) = (section(2, 20, 30), shared(1, 30, 40));
    let found = of(&[a.clone(), writer.clone(), late.clone()]).judge(Promise::Exclusive);
    assert_eq!(found, [Violation::TokenNotGreater(writer, late)]);
    let same = section(1, 20, 30);
    let found = of(&[a.clone(), same.clone()]).judge(Promise::Fenced);
    assert_eq!(found, [Violation::TokenTwice(a, same)]);
}

#[test]
fn where_sharers_have_tokens_of_their_own_only_exclusive_sections_are_in_order() {
    let apart = |token, entered, left| Section {
        mode: Mode::SharedApart,
        ..section(token, entered, left)
    };
    let (a, b, writer) = (apart(3, 0, 20), apart(2, 10, 30), section(4, 30, 40));
    let all = [
        a.clone(),
        b,
        writer.clone(),
        apart(6, 40, 50),
        apart(5, 45, 50),
    ];
    assert_eq!(of(&all).judge(Promise::Exclusive), []);
    let late = apart(3, 40, 50);
    let found = of(&[writer.clone(), late.clone()]).judge(Promise::Exclusive);
    assert_eq!(found, [Violation::TokenNotGreater(writer.clone(), late)]);
    let early = section(2, 20, 25);
    let found = of(&[a.clone(), early.clone()]).judge(Promise::Exclusive);
    assert_eq!(found, [Violation::TokenNotGreater(a, early)]);
}

#[test]
fn a_call_of_the_same_process_may_come_within_a_moment_and_know_no_better() {
    let at = Duration::from_millis;
    let lease = |token: i64| token << 12;
    let first = section(lease(5), 1, 2);
    let other = Section {
        process: 1,
        ..section(lease(9), 20, 30)
    };
    let second = |asked: Duration| Section {
        asked,
        ..section(lease(5) + 1, 40, 50)
    };
    let found = |promise, sections: &[Section]| of(sections).judge(promise).len();
    let late = second(at(30) + Duration::from_nanos(1));
    let in_time = second(at(30));
    let of_another = Section {
        process: 2,
        ..in_time.clone()
    };
    let before = Section {
        process: 2,
        asked: at(1),
        ..section(lease(7), 3, 4)
    };
    for (sections, count) in [
        (vec![first.clone(), other.clone(), in_time.clone()], 0),
        (vec![first.clone(), other.clone(), late], 1),
        (vec![first.clone(), other.clone(), of_another], 1),
        (vec![other.clone(), in_time.clone()], 1),
        // One that began earlier is still to have a smaller token.
        (vec![first, before, other, in_time], 1),
    ] {
        assert_eq!(found(Promise::Ordered, &sections), count, "{sections:?}");
        if count == 0 {
            assert_eq!(
                found(Promise::Exclusive, &sections),
                1,
                "nothing was forgotten"
            );
        }
    }
}
