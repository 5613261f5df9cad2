//! The messages about grants: the channel of a client, and the proof that the server wrote a message.
//!
//! Any role that may connect to the database can send and receive on any channel, and some can read all tables: those of backups
//! and reports. These have all that the server could prove a message by, so no message proves a grant. It only makes a waiter ask,
//! and the answer says whether the waiter has the lease.
//!
//! The proof keeps the others from making waiters ask: a hash over the message and the owner id, which contains the client id,
//! 122 random bits. A channel has 32 of them in its name, and a message none.

use std::fmt::Write;

use dlock_runtime::store::{ClientId, Hint, OwnerId};
use sha2::{Digest, Sha256};

/// The number of hexadecimal digits of a client id in the name of its channel. Two clients with the same ones get each other's
/// messages, and ignore them; in one store, only one of them gets messages, and the other one asks from time to time.
const CHANNEL: usize = 8;

/// The number of hexadecimal digits of a proof: 128 bits.
const PROOF: usize = 32;

/// Returns the channel of a client, as the function `channel` of the schema names it.
pub(crate) fn channel(client: ClientId) -> String {
    format!("dlock_{}", &client.to_string()[..CHANNEL])
}

/// Reads `owner fence number proof key`, of which `owner` is the number of a claim of `client`, as the word to ask. Returns
/// `None` for a message that neither the server nor a reader of its tables has sent.
pub(crate) fn read(client: ClientId, payload: &str) -> Option<Hint<'_>> {
    let mut parts = payload.splitn(5, ' ');
    let owner = OwnerId::new(client, parts.next()?.parse().ok()?);
    let fence: u64 = parts.next()?.parse().ok()?;
    let number: u64 = parts.next()?.parse().ok()?;
    let proof = parts.next()?;
    let key = parts.next()?;
    let is_proven = proof == hash(&format!("{fence} {number} {key} {owner}"));
    is_proven.then(|| Hint::new(key, owner, 0))
}

/// Returns the first digits of the SHA-256 of a text.
fn hash(text: &str) -> String {
    let mut hash = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        write!(hash, "{byte:02x}").expect("a String takes any text");
    }
    hash.truncate(PROOF);
    hash
}

#[cfg(test)]
mod tests {
    use dlock_runtime::random::SystemRandom;

    use super::*;

    #[test]
    fn a_message_is_read_or_left_out() {
        let client = ClientId::new(&SystemRandom);
        let owner = OwnerId::new(client, 3);
        let key = "order:42 and a blank";
        let proof = hash(&format!("7 9 {key} {owner}"));
        let payload = format!("3 7 9 {proof} {key}");
        let hint = read(client, &payload).unwrap();
        assert_eq!(hint, Hint::new(key, owner, 0), "it tells no fence");
        let stranger = ClientId::new(&SystemRandom);
        assert!(read(stranger, &payload).is_none());
        for bad in [
            String::new(),
            format!("x 7 9 {proof} {key}"),
            format!("3 7 9 {proof}"),
            format!("3 -7 9 {proof} {key}"),
            // Each part that was changed.
            format!("4 7 9 {proof} {key}"),
            format!("3 8 9 {proof} {key}"),
            format!("3 7 10 {proof} {key}"),
            format!("3 7 9 {proof} {key}1"),
            format!("3 7 9 {} {key}", &proof[1..]),
            format!("3 7 9  {key}"),
        ] {
            assert!(read(client, &bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_channel_has_only_a_part_of_the_id_of_its_client() {
        let client = ClientId::new(&SystemRandom);
        let id = client.to_string();
        let channel = channel(client);
        assert_eq!(channel, format!("dlock_{}", &id[..8]));
    }
}
