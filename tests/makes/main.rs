//! The contract of `conformance` with every other make and layout of servers, and every other way to reach them.
//!
//! A package of its own, so that who runs the usual tests does not compile each case ten times more.
#![cfg(all(feature = "redis", feature = "tls"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

#[macro_use]
#[path = "../conformance/cases/mod.rs"]
mod cases;
#[path = "../common/mod.rs"]
mod common;

use cases::{contract, leases, managers, modes, nodes, protocol};

mod raw_keys {
    cases_of_every_store! { real crate::common::RawKeys }
    cases_of_stores_with_turns! { real crate::common::RawKeys }
    cases_of_nodes! { real crate::common::RawKeys }
}

mod valkey {
    cases_of_every_store! { real crate::common::Valkey }
    cases_of_stores_with_turns! { real crate::common::Valkey }
    cases_of_nodes! { real crate::common::Valkey }
}

mod old_redis {
    cases_of_every_store! { real crate::common::OldRedis }
    cases_of_stores_with_turns! { real crate::common::OldRedis }
    cases_of_nodes! { real crate::common::OldRedis }
}

mod redis_cluster {
    cases_of_every_store! { real crate::common::RedisCluster }
    cases_of_stores_with_turns! { real crate::common::RedisCluster }
    cases_of_nodes! { real crate::common::RedisCluster }
}

mod redis_under_acl {
    cases_of_every_store! { real crate::common::RedisUnderAcl }
    cases_of_stores_with_turns! { real crate::common::RedisUnderAcl }
    cases_of_nodes! { real crate::common::RedisUnderAcl }
}

mod redis_by_resp2 {
    cases_of_every_store! { real crate::common::RedisByResp2 }
    cases_of_stores_with_turns! { real crate::common::RedisByResp2 }
    cases_of_nodes! { real crate::common::RedisByResp2 }
}

mod redis_over_tls {
    cases_of_every_store! { real crate::common::RedisOverTls }
    cases_of_stores_with_turns! { real crate::common::RedisOverTls }
    cases_of_nodes! { real crate::common::RedisOverTls }
}

mod sentinel {
    cases_of_every_store! { real crate::common::Sentinel }
    cases_of_stores_with_turns! { real crate::common::Sentinel }
}

mod min_replicas {
    cases_of_every_store! { real crate::common::Confirmed }
    cases_of_stores_with_turns! { real crate::common::Confirmed }
    cases_of_nodes! { real crate::common::Confirmed }
}

mod quorum_of_redis {
    cases_of_every_store! { real crate::common::QuorumOfRedis }
}
