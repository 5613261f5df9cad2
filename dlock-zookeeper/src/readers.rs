//! Readers: other clients that may read the nodes of a user, and change none of them.
//!
//! They must be trusted: a node shows the number of its session, and from it ZooKeeper derives the password of that session. A
//! client that takes a session over can close it, and its nodes end with it. So not every client can be a reader.

use zookeeper_client::{Acl, AuthId, Client, Error, Permission};

/// The first try, and three after others were faster.
const TRIES: usize = 4;

/// Reads a scheme and an identity, such as `digest:ops:hash=` and `ip:10.0.0.0/8`. `None` for another text, for `auth`, which is
/// the user of the URL, and for `world`, which is every client.
pub(crate) fn read(text: &str) -> Option<Acl> {
    let (scheme, id) = text.split_once(':')?;
    let is_valid = !id.is_empty() && !["", "auth", "world"].contains(&scheme);
    is_valid.then(|| Acl::new(Permission::READ, AuthId::new(scheme, id)))
}

/// Adds the readers to a node, if it is there.
///
/// # Errors
///
/// Those of the client, such as `InvalidAcl` for an identity that the servers do not know.
pub(crate) async fn admit(client: &Client, readers: &[Acl], path: &str) -> Result<(), Error> {
    for _ in 0..TRIES {
        match admit_to(client, readers, path).await {
            // Another process has changed the ACL, perhaps for other readers.
            Err(Error::BadVersion) => {}
            // Another process has not made the node yet. If another user owns it, that user decides.
            Ok(()) | Err(Error::NoNode | Error::NoAuth) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    // A process without its readers locks all the same. The next session tries again.
    Ok(())
}

async fn admit_to(client: &Client, readers: &[Acl], path: &str) -> Result<(), Error> {
    let (mut acls, stat) = client.get_acl(path).await?;
    let missing = readers.iter().filter(|it| !acls.contains(it));
    let missing: Vec<_> = missing.cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    acls.extend(missing);
    let version = Some(stat.aversion);
    client.set_acl(path, &acls, version).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_has_a_scheme_and_an_identity_and_may_only_read() {
        for (text, scheme, id) in [
            ("ip:10.0.0.0/8", "ip", "10.0.0.0/8"),
            ("digest:ops:a+b/c=", "digest", "ops:a+b/c="),
        ] {
            let reader = Acl::new(Permission::READ, AuthId::new(scheme, id));
            assert_eq!(read(text), Some(reader), "{text}");
        }
        for text in ["", "world", "world:anyone", "ip:", ":x", "auth:", "auth:me"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
