//! The requests to a server and its answers: scripts, commands, names of keys and errors.
//!
//! All keys of one lock share a hash slot. `K` is the key, `ns` the namespace (`dlock`):
//!
//! | Redis key | type | content |
//! |---|---|---|
//! | `ns:{K}` | string with a TTL | `owner fence label`, or `owner fence label#function`; owner = `client.number` |
//! | `ns:{K}:q` | zset with a TTL | waiting owners by the server's time of arrival; `owner!` for one that is only to be notified |
//! | `ns:{K}:a` | zset with a TTL | the same, by the time until which they count as alive (3 s) |
//! | `ns:fence:{tag}` | string | the last fence of the slot; `tag` is a short text that hashes to it: at most 16384 such keys |
//! | `ns:process:{client}` | string with a TTL of 30 s | `label started version`, for operators; written every 10 s, deleted by a shutdown |
//! | channel `ns:wake:client` | pub/sub | `owner fence K`: a hint about K |
//!
//! With raw keys the lock itself is stored at `K`, for third-party clients that lock by `SET K token NX PX ms`.
//! Its queue is at `ns:{K}:rq` and `ns:{K}:ra`, all in the same slot. **[S]** It is a different lock from the
//! one at `ns:{K}`: a release of one never makes a waiter of the other its holder. A value that dlock did not
//! write is a third-party lock: only its owner or its expiry frees it, and no hint follows, so waiters find it
//! at their next poll.
//!
//! A process that may publish on the channels can forge a hint, and a process that may write the keys can forge
//! a lock. Grant both permissions only to processes that lock.

pub(super) mod answers;
pub(super) mod command;
pub(super) mod errors;
pub(super) mod label;
pub(super) mod names;
pub(super) mod redirect;
pub(super) mod scripts;
pub(super) mod slot;
pub(super) mod value;
