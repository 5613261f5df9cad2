//! The parts of dlock's transactions in etcd, and their answers.

use std::collections::HashMap;

use crate::{
    errors,
    proto::{
        Answer, Compare, CompareResult, CompareTarget, CompareWith, DeleteRangeRequest, KeyValue,
        Op, OpAnswer, PutRequest, RangeRequest, RequestOp, ResponseHeader, TxnRequest, TxnResponse,
    },
};
use dlock_runtime::store::StoreError;

/// Holds if the key was created at this revision and is still there; with 0, if it is not there.
pub(crate) fn is_created_at(name: &[u8], create: i64) -> Compare {
    compare(
        CompareResult::Equal,
        CompareWith::CreateRevision(create),
        name,
    )
}

/// Holds if the key is as it was at this revision.
pub(crate) fn is_modified_at(name: &[u8], modified: i64) -> Compare {
    compare(
        CompareResult::Equal,
        CompareWith::ModRevision(modified),
        name,
    )
}

/// Holds if no key of the range was created after this revision; with 0, if there is none.
pub(crate) fn none_after((from, to): &(Vec<u8>, Vec<u8>), revision: i64) -> Compare {
    let with = CompareWith::CreateRevision(revision + 1);
    Compare {
        range_end: to.clone(),
        ..compare(CompareResult::Less, with, from)
    }
}

fn compare(result: CompareResult, with: CompareWith, name: &[u8]) -> Compare {
    let target = match with {
        CompareWith::CreateRevision(_) => CompareTarget::Create,
        CompareWith::ModRevision(_) => CompareTarget::Mod,
    };
    Compare {
        result: result as i32,
        target: target as i32,
        key: name.to_vec(),
        with: Some(with),
        range_end: Vec::new(),
    }
}

pub(crate) fn put(name: &[u8], value: Vec<u8>, lease: i64) -> RequestOp {
    let key = name.to_vec();
    Op::Put(PutRequest { key, value, lease }).into()
}

pub(crate) fn delete(name: &[u8]) -> RequestOp {
    let key = name.to_vec();
    Op::Delete(DeleteRangeRequest { key }).into()
}

pub(crate) fn get(name: &[u8]) -> RequestOp {
    let (key, range_end) = (name.to_vec(), Vec::new());
    Op::Range(RangeRequest { key, range_end }).into()
}

pub(crate) fn get_all((from, to): &(Vec<u8>, Vec<u8>)) -> RequestOp {
    let (key, range_end) = (from.clone(), to.clone());
    Op::Range(RangeRequest { key, range_end }).into()
}

/// A transaction that only reads. Its answer needs a majority, and is not older than the request.
pub(crate) fn read(reads: Vec<RequestOp>) -> TxnRequest {
    TxnRequest {
        success: reads,
        ..TxnRequest::default()
    }
}

/// The keys that this operation of a transaction has read, and the revision at which they were so.
pub(crate) fn read_of(
    answer: &TxnResponse,
    index: usize,
) -> Result<(&[KeyValue], i64), StoreError> {
    let found = answer
        .responses
        .get(index)
        .and_then(|it| it.response.as_ref());
    let Some(OpAnswer::Range(range)) = found else {
        return Err(errors::bad_answer("a transaction without its answers"));
    };
    // Reads that were sent one by one have revisions of their own.
    let own = range.header().revision;
    let revision = if own > 0 {
        own
    } else {
        answer.header().revision
    };
    Ok((&range.kvs, revision))
}

/// The headers of the reads that were sent one by one.
pub(crate) fn headers(answer: &TxnResponse) -> impl Iterator<Item = ResponseHeader> {
    let headers = answer.responses.iter().filter_map(|it| match &it.response {
        Some(OpAnswer::Range(range)) => Some(range.header()),
        _ => None,
    });
    // A transaction has one header, and its reads have at most a revision.
    headers.filter(|header| header.raft_term > 0)
}

/// The keys that this operation of a transaction has read.
pub(crate) fn keys_of(answer: &TxnResponse, index: usize) -> Result<&[KeyValue], StoreError> {
    let found = answer
        .responses
        .get(index)
        .and_then(|it| it.response.as_ref());
    match found {
        Some(OpAnswer::Range(range)) => Ok(&range.kvs),
        _ => Err(errors::bad_answer("a transaction without its answers")),
    }
}

/// The keys that a transaction of single reads has found, by their names.
pub(crate) fn found(answer: &TxnResponse) -> HashMap<&[u8], &KeyValue> {
    let ranges = answer.responses.iter().filter_map(|it| match &it.response {
        Some(OpAnswer::Range(range)) => range.kvs.first(),
        _ => None,
    });
    ranges.map(|kv| (&*kv.key, kv)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{PutResponse, RangeResponse, ResponseOp};

    /// The answer to a read of one key, with a header of its own or that of its transaction.
    fn read_at(name: &str, revision: i64, term: u64) -> ResponseOp {
        let kv = KeyValue {
            key: name.into(),
            ..KeyValue::default()
        };
        let header = ResponseHeader {
            member_id: 1,
            revision,
            raft_term: term,
        };
        let kvs = vec![kv];
        let header = Some(header);
        RangeResponse { header, kvs }.into()
    }

    fn answer() -> TxnResponse {
        let header = ResponseHeader {
            member_id: 1,
            revision: 9,
            raft_term: 3,
        };
        let put = ResponseOp {
            response: Some(OpAnswer::Put(PutResponse {})),
        };
        TxnResponse {
            header: Some(header),
            succeeded: true,
            responses: vec![
                read_at("together", 0, 0),
                read_at("alone", 7, 2),
                put,
                ResponseOp::default(),
            ],
        }
    }

    #[test]
    fn a_read_that_was_sent_alone_has_a_revision_of_its_own() {
        let answer = answer();
        for (index, name, expected) in [(0, "together", 9), (1, "alone", 7)] {
            let (kvs, revision) = read_of(&answer, index).unwrap();
            assert_eq!((&*kvs[0].key, revision), (name.as_bytes(), expected));
            assert_eq!(keys_of(&answer, index).unwrap(), kvs);
        }
        let terms: Vec<_> = headers(&answer).map(|it| it.raft_term).collect();
        assert_eq!(terms, [2], "the other one has that of the transaction");
        let found = found(&answer);
        assert_eq!(found.len(), 2);
        assert_eq!(found[&b"alone"[..]].key, b"alone");
    }

    #[test]
    fn an_answer_without_what_was_read_is_an_error() {
        let answer = answer();
        for index in [2, 3, 4] {
            for error in [
                read_of(&answer, index).unwrap_err(),
                keys_of(&answer, index).unwrap_err(),
            ] {
                assert_eq!(error.message(), "a transaction without its answers");
            }
        }
    }
}
