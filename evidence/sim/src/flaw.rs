//! Flaws of a world beyond its promises: a run has to find each of them.

/// A broken promise of a server, of the network or of a clock. What finds nothing wrong in such a world
/// finds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Flaw {
    /// The world is as it should be.
    #[default]
    None,
    /// A release frees the key, whichever owner holds it.
    ReleasesWhosoever,
    /// A renewal succeeds, whichever owner holds the key.
    RenewsWhosoever,
    /// An owner that asks again gets *granted*, and its TTL goes on as it was.
    AskedAgainKeepsItsTime,
    /// Now and then a key that is held is granted to another owner.
    GrantsTwice,
    /// Fences do not grow.
    FencesFollowNoCounter,
    /// A grant lasts for a second only.
    HandsOnForASecond,
    /// A *busy* answer carries a last fence that is too low.
    LastFenceIsTooLow,
    /// Notices of grants that are over come again, with a new fence.
    RepeatsOldGrantsAsNew,
    /// Now and then a release is confirmed that was not carried out.
    ForgetsReleases,
    /// A fence that is to be raised stays as it was.
    RaisesNothing,
    /// The servers' clocks are faster than the drift that is allowed for.
    FastClocks,
    /// Servers forget everything in secret.
    ForgetsSecretly,
    /// Requests are said to have come to nothing that were carried out.
    DeniesWhatItDid,
    /// Some processes talk to other servers.
    SplitBrain,
    /// Acquisitions are answered with a grant although another owner holds the key.
    AnswersForOthers,
    /// Now and then a key that others share is granted to an exclusive owner.
    AdmitsBesideSharers,
    /// There is one permit more than was asked for.
    CountsOnePermitTooMany,
    /// Each of those that share a key has a fence of its own.
    EachSharerHasItsFence,
    /// The release of one who shares a key ends the leases of all.
    ReleasesAllSharers,
    /// A renewal that comes late brings back a lease of one who shared the key, beside whoever has it by then.
    RevivesEndedSharers,
    /// A release grants the key to one waiter, although others could have it with that one.
    GrantsOneWaiter,
    /// Those that share a key are let in although an exclusive waiter is before them.
    SharersOvertake,
    /// The grant to a waiter that joins others counts no number up.
    JoinsAreNotCounted,
}

impl Flaw {
    /// Whether it shows only where keys are shared.
    pub(crate) fn is_about_sharing(self) -> bool {
        matches!(
            self,
            Self::AdmitsBesideSharers
                | Self::CountsOnePermitTooMany
                | Self::EachSharerHasItsFence
                | Self::ReleasesAllSharers
                | Self::RevivesEndedSharers
                | Self::GrantsOneWaiter
                | Self::SharersOvertake
                | Self::JoinsAreNotCounted
        )
    }
}
