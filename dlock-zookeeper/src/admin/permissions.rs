//! Finds the permissions that a user lacks, by requests that change nothing.

use dlock_admin::Denied;
use dlock_runtime::store::StoreError;
use zookeeper_client::{Acl, Acls, Client, CreateMode, Error, MultiWriteError, Permission};

use super::link::rule;
use crate::{errors, names};

/// The permissions of the user on the nodes of a namespace, and what the ACL of its root says.
pub(super) struct Permissions {
    pub(super) reads: bool,
    pub(super) denied: Vec<Denied>,
    /// `true` if every client may create or delete nodes; `None` if that is unknown.
    pub(super) is_open: Option<bool>,
}

/// Tries what locks and operators need.
pub(super) async fn permissions(client: &Client, root: &str) -> Result<Permissions, StoreError> {
    let reads = may_read(client, root).await?;
    let parent = existing(client, root).await?;
    let is_there = parent == root;
    let mut denied = Vec::new();
    if !may_write(client, root, &parent).await? {
        let rule = if is_there {
            rule(root, "all permissions")
        } else {
            format!(
                "grant your user the permission CREATE on `{parent}`, or create `{root}` for it"
            )
        };
        denied.push(Denied::new(rule, "acquiring and releasing locks", true));
    }
    if !reads {
        denied.push(Denied::new(rule(root, "READ"), "looking at locks", false));
    }
    let acls = match client.get_acl(root).await {
        Ok((acls, _)) => Some(acls),
        Err(Error::NoNode | Error::NoAuth) => None,
        Err(error) => return Err(errors::store_error(&error)),
    };
    Ok(Permissions {
        reads,
        denied,
        is_open: acls.map(|acls| acls.iter().any(is_open)),
    })
}

fn is_open(acl: &Acl) -> bool {
    let changes = Permission::CREATE | Permission::DELETE;
    acl.scheme() == "world" && acl.permission() & changes != Permission::NONE
}

async fn may_read(client: &Client, root: &str) -> Result<bool, StoreError> {
    match client.list_children(root).await {
        Ok(_) | Err(Error::NoNode) => Ok(true),
        Err(Error::NoAuth) => Ok(false),
        Err(error) => Err(errors::store_error(&error)),
    }
}

/// Returns the last node on the way to `root` that is there.
async fn existing(client: &Client, root: &str) -> Result<String, StoreError> {
    let mut path = root;
    while !path.is_empty() {
        match client.check_stat(path).await {
            Ok(Some(_)) => return Ok(path.to_owned()),
            Ok(None) => path = path.rsplit_once('/').map_or("", |(parent, _)| parent),
            Err(error) => return Err(errors::store_error(&error)),
        }
    }
    Ok("/".to_owned())
}

/// Sends a transaction that ZooKeeper refuses to a user who may not create nodes, and that has no effect: no text was written
/// so often.
async fn may_write(client: &Client, root: &str, parent: &str) -> Result<bool, StoreError> {
    let beginning = parent.trim_end_matches('/');
    let mut places = vec![format!("{beginning}/dlock-doctor")];
    let fences = names::bases(root);
    match client.check_stat(&fences).await {
        Ok(Some(_)) => places.push(format!("{fences}/dlock-doctor")),
        Ok(None) => {}
        Err(error) => return Err(errors::store_error(&error)),
    }
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let mut writer = client.new_multi_writer();
    let add = |writer: &mut zookeeper_client::MultiWriter<'_>| {
        for place in &places {
            writer.add_create(place, b"", &options)?;
        }
        writer.add_check_version(parent, i32::MAX)
    };
    add(&mut writer).map_err(|error| errors::store_error(&error))?;
    match writer.commit().await {
        Ok(_)
        | Err(MultiWriteError::OperationFailed {
            source: Error::BadVersion | Error::NodeExists,
            ..
        }) => Ok(true),
        Err(MultiWriteError::OperationFailed {
            source: Error::NoAuth,
            ..
        }) => Ok(false),
        Err(error) => Err(errors::store_error(&Error::from(error))),
    }
}

#[cfg(test)]
mod tests {
    use zookeeper_client::AuthId;

    use super::*;

    #[test]
    fn nodes_are_open_if_every_client_may_create_or_delete_them() {
        let of_all = |permission| Acl::new(permission, AuthId::anyone());
        for permission in [
            Permission::ALL,
            Permission::CREATE,
            Permission::DELETE,
            Permission::READ | Permission::DELETE,
        ] {
            assert!(is_open(&of_all(permission)), "{permission:?}");
        }
        assert!(!is_open(&of_all(Permission::READ | Permission::WRITE)));
        let own = AuthId::new("digest", "shop:hash");
        assert!(!is_open(&Acl::new(Permission::ALL, own)));
    }
}
