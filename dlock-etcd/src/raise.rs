//! Raises the base of fences over a connection, see `base.rs`.

use std::sync::PoisonError;

use dlock_runtime::store::{StoreError, fence_by_the_clock};

use crate::{
    base::{Base, of_answer, raised, read_op},
    conn::{Conn, Failure},
    keys, ops,
    proto::{Answer, Op, PutRequest, TxnRequest},
};

/// Raises the base over a new connection, before any claim is created over it.
pub(crate) async fn begin(conn: &Conn) -> Result<(), StoreError> {
    match raise(conn).await {
        Ok(raised) => note(conn, raised),
        // Leases can be renewed and released over it, and no claim is created.
        Err(failure) if failure.is_full => {}
        Err(failure) => return Err(failure.error.unsent()),
    }
    Ok(())
}

/// Returns the base as this connection knows it, and raises it if that is still to be done.
pub(crate) async fn current(conn: &Conn) -> Result<Base, StoreError> {
    let known = *conn.base.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(base) = known {
        return Ok(base);
    }
    let raised = raise(conn).await?;
    note(conn, raised);
    Ok(raised)
}

/// Notes the base that an answer had.
pub(crate) fn note(conn: &Conn, base: Base) {
    *conn.base.lock().unwrap_or_else(PoisonError::into_inner) = Some(base);
}

/// Reads the base, and raises it if fences would be behind the clock.
async fn raise(conn: &Conn) -> Result<Base, Failure> {
    let namespace = &conn.config.namespace;
    loop {
        let answer = conn.read(&ops::read(vec![read_op(namespace)])).await?;
        let base = of_answer(&answer, 0).map_err(Failure::new)?;
        let revision = u64::try_from(answer.header().revision).unwrap_or(0);
        let clock = fence_by_the_clock();
        let Some(raised) = raised(base, revision, clock) else {
            return Ok(base);
        };
        let put = PutRequest {
            key: keys::base(namespace),
            value: raised.to_string().into_bytes(),
            lease: 0,
        };
        let request = TxnRequest {
            compare: vec![base.is_unchanged(namespace)],
            success: vec![Op::Put(put).into()],
            failure: Vec::new(),
        };
        let answer = conn.txn(request).await?;
        if answer.succeeded {
            return Ok(Base {
                value: raised,
                modified: answer.header().revision,
            });
        }
    }
}
