//! The protocols, as states and messages: every order of events, within bounds.
//!
//! Each rule can be left out. The checker has to find what then fails, by a shortest way whose length is
//! asserted, so that the models themselves cannot rot. This is what becomes of the rules that
//! `ARCHITECTURE.md` marks with **\[S\]**, and of some more:
//!
//! | rule | left out | fails after |
//! |---|---|---|
//! | a deadline counts from before the request was sent | [`lease::Rule::CountsFromTheSending`] | 9 |
//! | past it the section is over | [`lease::Rule::EndsAtTheDeadline`] | 9 |
//! | the drift is taken off | [`lease::Rule::DriftIsTakenOff`] | 9 |
//! | time asleep counts | [`lease::Rule::SleepCounts`] | 9 |
//! | a failed request moves no deadline | [`lease::Rule::NoAnswerMovesNothing`] | 13 |
//! | one of the two, for exclusion | [`lease::Rule::LostIsFinal`] and [`lease::Rule::RenewalCompares`] together | 13 |
//! | a lost lease does not come back | [`lease::Rule::LostIsFinal`] | 8 |
//! | a renewal compares | [`lease::Rule::RenewalCompares`] alone: a dead holder's lease goes on | 15 |
//! | a release compares | [`lease::Rule::ReleaseCompares`] | 10 |
//! | what got no answer is released | [`lease::Rule::UnknownIsReleased`] | 3 |
//! | an owner id is for one attempt | [`lease::Rule::IdForOneAttempt`] | 11 |
//! | a repeated question finds its own lease, and starts the TTL anew | [`lease::Rule::RepeatStartsAnew`] | 12 |
//! | all requests of a claim carry the same TTL | [`lease::Rule::OneTtl`] | 9 |
//! | a hint counts from a question | [`lease::Rule::HintCountsFromAQuestion`] | 13 |
//! | which knew a smaller fence | [`lease::Rule::HintCountsFromASmallerFence`] | 16 |
//! | for the time of a grant | [`lease::Rule::HintCountsForAGrant`] | 13 |
//! | hints may be lost, so waiters poll | [`lease::Rule::LooksAgain`] | 4 |
//! | a fence is greater than the last | [`lease::Rule::FenceExceedsTheLast`] | 6 |
//! | and not below the server's time | [`lease::Rule::FenceFollowsTheClock`]: a server forgets, a replica is behind | 13, 12 |
//! | the resource refuses smaller tokens | [`lease::Rule::ResourceRefuses`] | 11 |
//! | a free lock goes to the longest waiter | [`lease::Rule::FirstComesFirst`] | 8 |
//! | a task that was picked looks at the deadline | [`handover::Rule::LooksAtTheDeadline`] | 8 |
//! | a lease is handed over only before its deadline | [`handover::Rule::HandsOverInTime`] | all holds: the next task looks |
//! | with a greater token | [`handover::Rule::TokenGrows`] | 5 |
//! | 4095 times at most | [`handover::Rule::SequenceEnds`] | 11 |
//! | for a time only | [`handover::Rule::TurnEnds`] | 13 |
//! | since it came from the store, not since an answer | [`handover::Rule::AnswersMakeNoYounger`] | 13 |
//! | a picked task that is dropped passes it on | [`handover::Rule::PickedPassesOn`] | 17 |
//! | one releases | [`handover::Rule::OneReleases`] | 7 |
//! | a lease that its task does not look at is not renewed | [`handover::Rule::UnseenIsNotRenewed`] | 16 |
//! | a task that has begun is not passed over | [`handover::Rule::BegunIsNotPassedOver`] | 5 |
//! | no two claims have one owner | [`handover::Rule::NoOwnerTwice`] | 9 |
//! | a task that was picked asks if its lease was ended by force | [`handover::Rule::DoubtedIsAskedFor`] | 7 |
//! | a lease that was ended by force is not handed over | [`handover::Rule::DoubtedIsNotHandedOver`] | all holds: the next task asks |
//! | an exclusive lease is granted only without a living holder | [`modes::Rule::ExclusiveIsAlone`] | 6 |
//! | a shared one only without an exclusive holder | [`modes::Rule::SharedExcludesExclusive`] | 6 |
//! | a permit while fewer than `n` holders live | [`modes::Rule::PermitsAreCounted`] | 9 |
//! | an ended lease is removed before the next grant | [`modes::Rule::EndedAreRemoved`] | 11 |
//! | the key lasts as long as the last lease in it | [`modes::Rule::KeyLastsForAll`] | 9 |
//! | a release keeps the leases of others | [`modes::Rule::ReleaseKeepsOthers`] | 10 |
//! | one queue for all modes | [`modes::Rule::OneQueue`] | 6 |
//! | a release grants all that fit | [`modes::Rule::ReleaseGrantsAll`] | 8 |
//! | the first shared holder gets a new epoch | [`modes::Rule::EpochIsNew`] | 10 |
//! | all that hold together have the same | [`modes::Rule::EpochIsShared`] | 8 |
//! | each grant to a waiter has its own number | [`modes::Rule::GrantsAreNumbered`] | 12 |
//! | a fence is not below the server's time, also if a replica that was behind takes over | [`modes::Rule::FenceFollowsTheClock`] | 10 |
//! | the resource refuses smaller tokens, also of readers | [`modes::Rule::ResourceRefuses`] | 10 |
//! | a majority grants | [`quorum::Rule::MajorityGrants`] | 4 |
//! | within the TTL from the first question | [`quorum::Rule::CountsFromTheFirstQuestion`] | 7 |
//! | a fence that a majority does not have is raised | [`quorum::Rule::FenceIsRaised`] | 8 |
//! | while the lock is held | [`quorum::Rule::RaisedWhereHeld`] | 9 |
//! | and as it was granted | [`quorum::Rule::RaisedAsGranted`] | 11 |
//! | a node that has counted further confirms nothing else | [`quorum::Rule::LateGrantIsExact`] | 10 |
//! | no id after a release was sent | [`quorum::Rule::FreshId`] | 9 |
//! | a grant that comes late is released | [`quorum::Rule::LateGrantIsGivenBack`] | 8 |
//! | a retake never outlives the release | [`quorum::Rule::RetakeIsGivenBack`] | 10 |
//! | proposals follow a clock | [`quorum::Rule::ProposedByTheClock`] | 9 |
//! | a node that has forgotten stays out for a TTL | [`quorum::Rule::ForgetfulStaysOut`] | 7 |
//! | the lock of the key's row excludes others of its kind. `FOR KEY SHARE` does not | [`rows::Rule::MutexExcludes`] | 6 |
//! | the key's row is locked as strongly as will be needed, at once, and not `FOR SHARE` first | [`rows::Rule::LockedAtOnce`] | 4 |
//! | the holders are read by a statement that begins when the mutex is there | [`rows::Rule::SnapshotAfterTheLock`] | 6 |
//! | acquire reads the clock when the mutex is there | [`rows::Rule::ClockAfterTheLock`] | 12 |
//! | a renewal reads the clock, `clock_timestamp()`, and not the begin of its transaction, `now()` | [`rows::Rule::RenewalReadsTheClock`] | 15 |
//! | a take-over does not wait for a lease that ended and is locked: `SKIP LOCKED` | [`rows::Rule::TakeOverSkipsLocked`] | 8 |
//! | a lease that ended and is locked keeps others out | [`rows::Rule::LockedCountsAsHeld`] | 9 |
//! | a take-over deletes, which `FOR KEY SHARE` keeps out. An `UPDATE` of the owner in place is not kept out | [`rows::Rule::TakeOverDeletes`] | 9 |
//! | the owner's repeated acquire does not wait for its own lease, if that is locked | [`rows::Rule::RepeatSkipsLocked`] | 7, 13 |
//! | a fence locks the row that it has found | [`rows::Rule::FenceLocks`] | 10 |
//! | it finds the row by owner and fence | [`rows::Rule::FenceCompares`] | 18 |
//! | a renewal inserts no row that was removed | [`rows::Rule::RenewalRevivesNothing`] | 12 |
//! | a renewal of several leases locks them in one order | [`rows::Rule::RowsInOneOrder`] | 10 |
//! | a release deletes the row of its own owner | [`rows::Rule::ReleaseCompares`] | 12 |
//! | a release takes the mutex | [`rows::Rule::ReleaseTakesTheMutex`] | 9 |
//! | a release does not wait for a row that is locked: `NOWAIT` | [`rows::Rule::ReleaseWaitsForNobody`] | 6, 12, 6 |
//! | a busy acquire takes its place in the queue under the mutex | [`rows::Rule::QueuesUnderTheMutex`] | 10 |
//! | a request that looks for the next waiter removes those that did not repeat their request in time | [`rows::Rule::DeadWaitersAreRemoved`] | 10 |
//! | a commit that grants a lease, or extends it, waits for the disk | [`rows::Rule::GrantsAreDurable`] | 7 |
//! | and so does one that renews leases | [`rows::Rule::RenewalsAreDurable`] | 12 |
//! | `lock_in` deletes its lease, and does not only lock it `FOR UPDATE` | [`rows::Rule::LockInDeletes`] | 5 |
//! | `lock_in` is refused if its lease is not there any more | [`rows::Rule::LockInFindsItsLease`] | 9, 12 |
//! | each `lock_in` has an owner of its own | [`rows::Rule::LockInHasItsOwner`] | 7 |
//! | the lease of a `lock_in` is not renewed | [`rows::Rule::LockInIsNotRenewed`] | 5 |
//! | a fence is greater than the last of its key | [`rows::Rule::FenceExceedsTheLast`] | 8 |
//! | and not below the clock | [`rows::Rule::FenceFollowsTheClock`] | 13 |
//! | a fence from when its waiter came is given only if no greater one was given since | [`rows::Rule::NumberExceedsTheLast`] | 15 |
//! | a standby that takes over has no waiters | [`rows::Rule::QueueEndsWithItsServer`] | 16 |
//! | the row of a key is swept only when the clock is beyond its last fence | [`rows::Rule::SweptLater`] | 11 |
//! | a request that has waited for a row which was swept then starts over | [`rows::Rule::StartsOverWhenSwept`] | 16 |
//! | that a lease has ended is seen under the lock, and a renewal refuses it | [`rows::Rule::EndIsSeenUnderTheLock`], [`rows::Rule::RenewalRefusesTheEnded`]: other rules stand in for each | never |
//! | a lease of etcd that a request of unknown outcome has named is not used again | [`leases::Rule::UnknownIsEnded`] | 5 |
//! | it is that of one claim at a time | [`leases::Rule::OneClaimALease`] | 12 |
//! | it is used again when the deletion of its last key was answered | [`leases::Rule::DeletedBeforeItIsUsed`] | 4 |
//! | it counts when its keep-alive was answered as well | [`leases::Rule::KeptAliveBeside`] | 10 |
//! | etcd refuses a request that names a lease which has ended | [`leases::Rule::EndedIsRefused`] | 7 |
//! | it is not used again after a deletion that compares no create revision | [`leases::Rule::BareIsTheLast`] | 10 |
//!
//! What is asserted is computed from what the server and the processes do, not by the code of the rules. Some
//! things are so by construction: connections keep their order, a hint names who got the lock, the other
//! process of [`handover`] knows its time exactly, and in [`quorum`] a lock that ends in time does so
//! because its client does not believe in it any more. Its exclusion is about votes, that of [`lease`] about time.
//!
//! Rules about how it is written down, not about the protocol, stay with the tests of the code: the
//! order of writes in a script, keys that differ, where a redirect leads, what replicas have
//! confirmed, one order for several keys.

pub mod check;
pub mod handover;
pub mod historical;
pub mod lease;
pub mod leases;
mod list;
pub mod modes;
pub mod quorum;
pub mod rows;

use check::Check;

/// All that is checked; the larger bounds take minutes each.
#[must_use]
pub fn checks(is_large: bool) -> Vec<Check> {
    let mut checks = historical::checks(is_large);
    checks.extend(lease::checks(is_large));
    checks.extend(handover::checks(is_large));
    checks.extend(modes::checks(is_large));
    checks.extend(quorum::checks(is_large));
    checks.extend(rows::checks(is_large));
    checks.extend(leases::checks(is_large));
    checks
}
