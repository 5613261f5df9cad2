//! Finds the permissions that a user lacks, by requests that change nothing.

use dlock_admin::Denied;
use dlock_runtime::store::{StoreError, StoreErrorKind};

use super::{
    link::rule,
    messages::{PageRequest, PageResponse, RANGE},
    page,
};
use crate::{
    conn::{Conn, Failure},
    keys, ops,
    proto::{Compare, CompareResult, CompareTarget, CompareWith, TxnRequest},
};

/// The permissions of the user for the keys of the namespace.
pub(super) struct Permissions {
    pub(super) reads: bool,
    pub(super) denied: Vec<Denied>,
}

/// Tries what locks and operators need.
pub(super) async fn permissions(conn: &Conn) -> Result<Permissions, StoreError> {
    let namespace = &conn.config.namespace;
    let (key, range_end) = page::beginning_with(namespace, "");
    let first = PageRequest {
        key,
        range_end,
        limit: 1,
        revision: 0,
    };
    let reads = is_allowed(conn.call::<_, PageResponse>(RANGE, first).await)?;
    let writes = is_allowed(conn.txn(write_nothing(namespace)).await)?;
    let mut denied = Vec::new();
    if !writes {
        let rule = rule(namespace, "readwrite");
        denied.push(Denied::new(rule, "acquiring and releasing locks", true));
    }
    if !reads {
        denied.push(Denied::new(
            rule(namespace, "read"),
            "looking at locks",
            false,
        ));
    }
    Ok(Permissions { reads, denied })
}

fn is_allowed<T>(answer: Result<T, Failure>) -> Result<bool, StoreError> {
    match answer.map_err(StoreError::from) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == StoreErrorKind::Denied => Ok(false),
        // A full database refuses before it looks at the user.
        Err(error) if error.kind() == StoreErrorKind::OutOfMemory => Ok(true),
        Err(error) => Err(error),
    }
}

/// A transaction that etcd refuses to a user who may not write at both ends of the namespace, and that has no effect: no
/// revision is less than 0.
fn write_nothing(namespace: &str) -> TxnRequest {
    let names = [
        keys::base(namespace),
        keys::prefix(namespace, "\u{10ffff}doctor"),
    ];
    let never = Compare {
        result: CompareResult::Less as i32,
        target: CompareTarget::Create as i32,
        key: names[0].clone(),
        with: Some(CompareWith::CreateRevision(0)),
        range_end: Vec::new(),
    };
    TxnRequest {
        compare: vec![never],
        success: names.map(|name| ops::put(&name, Vec::new(), 0)).into(),
        failure: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_the_user_is_a_missing_permission() {
        let answer = |kind| Err::<(), _>(Failure::new(StoreError::new(kind, "why")));
        assert_eq!(is_allowed(Ok(())), Ok(true));
        assert_eq!(is_allowed(answer(StoreErrorKind::Denied)), Ok(false));
        // The database is full: etcd has not looked at the user.
        assert_eq!(is_allowed(answer(StoreErrorKind::OutOfMemory)), Ok(true));
        for kind in [StoreErrorKind::Disconnected, StoreErrorKind::Refused] {
            let error = is_allowed(answer(kind)).unwrap_err();
            assert_eq!(error.kind(), kind);
        }
    }
}
