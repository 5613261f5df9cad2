//! What can be wrong with a world beyond what it promises: each of these has to be found.

/// A broken promise of a server, of the network or of a clock. What finds nothing wrong in such a world
/// finds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Flaw {
    /// The world is as it should be.
    #[default]
    None,
    /// A release frees the key, whoever holds it.
    ReleasesWhosoever,
    /// A renewal is good, whoever holds the key.
    RenewsWhosoever,
    /// The owner that asks again is told that the key is its own, and its TTL goes on as it was.
    AskedAgainKeepsItsTime,
    /// Now and then a key that is held is given to who asks.
    GrantsTwice,
    /// Fences do not grow.
    FencesFollowNoCounter,
    /// A lease that is handed on lasts for a second only.
    HandsOnForASecond,
    /// Who is refused is told of a last fence that is too low.
    LastFenceIsTooLow,
    /// Notices of grants that are over come again, with a new fence.
    RepeatsOldGrantsAsNew,
    /// Now and then a release is confirmed that was not carried out.
    ForgetsReleases,
    /// A fence that is to be raised stays as it was.
    RaisesNothing,
    /// The servers' clocks are faster than the drift that is allowed for.
    FastClocks,
    /// Servers forget everything, and nobody is to know.
    ForgetsSecretly,
    /// Requests are said to have come to nothing that were carried out.
    DeniesWhatItDid,
    /// Some processes talk to other servers.
    SplitBrain,
    /// Acquisitions are answered with a grant although somebody else holds the key.
    AnswersForOthers,
}
