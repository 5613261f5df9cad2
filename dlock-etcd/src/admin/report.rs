//! Reads the state of each member: version, leader, alarms, database, permissions, and round trips.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use dlock_admin::ServerReport;
use dlock_runtime::store::StoreError;
use futures_util::future::join_all;
use tokio::time::timeout;
use tonic::{Request, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel};
use tonic_prost::ProstCodec;

use super::{
    link,
    messages::{
        MemberListRequest, MemberListResponse, MemberStatus, MemberStatusRequest, PageRequest,
        PageResponse, RANGE,
    },
    metrics, permissions,
};
use crate::{
    config::{Config, Member},
    conn::{self, Conn},
    dial, errors, keys,
    proto::WatchCreateRequest,
    version,
};

const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const MEMBER_LIST: &str = "/etcdserverpb.Cluster/MemberList";

/// The number of round trips that are measured.
const SAMPLES: usize = 20;

/// Reports on each member of the URL.
pub(super) async fn report(config: &Arc<Config>) -> Vec<ServerReport> {
    join_all(
        config
            .members
            .iter()
            .map(|member| of_member(config, member)),
    )
    .await
}

async fn of_member(config: &Arc<Config>, member: &Member) -> ServerReport {
    let mut report = ServerReport::new(format!("etcd://{}", member.place));
    report.product = Some("etcd".to_owned());
    if let Err(failure) = fill(config, member, &mut report).await {
        report.failure = Some(member.failed(failure));
    }
    report
}

/// Fails only if the member cannot be asked at all.
async fn fill(
    config: &Arc<Config>,
    member: &Member,
    report: &mut ServerReport,
) -> Result<(), StoreError> {
    let channel = within(config.connect_limit, dial::dial(member)).await?;
    let status = within(config.response_limit, status(config, channel)).await?;
    set_status(report, &status);
    report.version = Some(status.version.clone());
    let user = config.login.as_ref().map_or("", |login| &login.user);
    report.set("user", user);
    let mut quota = u64::try_from(status.db_size_quota).unwrap_or(0);
    if quota == 0 && config.tls.is_none() {
        quota = metrics::quota(&member.place, config.response_limit)
            .await
            .unwrap_or(0);
    }
    if quota > 0 {
        report.set("db_size_quota", quota);
    }
    if status.leader == 0 || version::is_refused(&status.version) {
        // Nothing that needs a majority is answered, or nothing that is understood.
        return Ok(());
    }
    let connected = within(config.connect_limit, link::open(config, member)).await?;
    let conn = &connected.conn;
    // Later versions may want a permission for it.
    let listed = conn.call::<_, MemberListResponse>(MEMBER_LIST, MemberListRequest {});
    if let Ok(Ok(listed)) = timeout(config.response_limit, listed).await {
        let ids = |learners: bool| {
            let some = listed.members.iter().filter(|it| it.is_learner == learners);
            let ids = some.map(|it| format!("{:x}", it.id));
            ids.collect::<Vec<_>>().join(",")
        };
        report.set("members", ids(false));
        report.set("learners", ids(true));
    }
    if status.is_learner {
        // It answers nothing else.
        return Ok(());
    }
    let tried = permissions::permissions(conn);
    let found = within(config.response_limit, tried).await?;
    report.set("reads_locks", found.reads);
    report.denied = found.denied;
    if found.reads {
        measure(config, conn, report).await?;
        let revision = status.header.unwrap_or_default().revision;
        let is_proxied = within(config.response_limit, is_proxied(conn, revision)).await?;
        report.set("is_proxied", is_proxied);
    }
    Ok(())
}

/// Asks for the state of a member. It answers without a leader and without a login.
async fn status(config: &Config, channel: Channel) -> Result<MemberStatus, StoreError> {
    let mut grpc = Grpc::new(channel);
    let codec = ProstCodec::<MemberStatusRequest, MemberStatus>::default();
    let path = PathAndQuery::from_static(STATUS);
    let asked = async {
        conn::ready(&mut grpc).await?;
        grpc.unary(Request::new(MemberStatusRequest {}), path, codec)
            .await
    };
    let answer = asked.await;
    answer
        .map(tonic::Response::into_inner)
        .map_err(|status| errors::of_first_request(&status, config))
}

/// Returns `true` if this is etcd's gRPC proxy, and not a member. It follows a range once for all clients, so the beginning of a
/// second watch is its own answer, which names no member.
async fn is_proxied(conn: &Conn, revision: i64) -> Result<bool, StoreError> {
    let (key, range_end) = keys::range(&conn.config.namespace, "");
    let create = WatchCreateRequest {
        key,
        range_end,
        start_revision: revision + 1,
    };
    let mut first = conn.watch(create.clone()).await?;
    let is_begun = matches!(first.next().await, Ok(Some(_)));
    let mut second = conn.watch(create).await?;
    let begun = second.next().await;
    Ok(is_begun && matches!(begun, Ok(Some(begun)) if begun.is_of_no_member()))
}

fn set_status(report: &mut ServerReport, status: &MemberStatus) {
    report.set("etcd_version", &status.version);
    if version::is_refused(&status.version) {
        report.set("is_too_old", true);
    }
    if let Some(fixed) = version::fixed_in(&status.version) {
        report.set("leases_fixed_in", fixed);
    }
    if version::is_torn_by_kills(&status.version) {
        report.set("is_torn_by_kills", true);
    }
    let header = status.header.unwrap_or_default();
    report.set("cluster_id", format!("{:x}", header.cluster_id));
    report.set("member_id", format!("{:x}", header.member_id));
    report.set("revision", header.revision);
    report.set("has_leader", status.leader != 0);
    report.set("is_leader", status.leader == header.member_id);
    report.set("is_learner", status.is_learner);
    report.set("db_size", status.db_size);
    report.set("db_size_in_use", status.db_size_in_use);
    // An alarm is `memberID:10501334649042878790 alarm:NOSPACE `.
    let alarms = ["NOSPACE", "CORRUPT"].into_iter().filter(|alarm| {
        let mut words = status
            .errors
            .iter()
            .flat_map(|text| text.split_whitespace());
        words.any(|word| word.strip_prefix("alarm:") == Some(alarm))
    });
    report.set("alarms", alarms.collect::<Vec<_>>().join(","));
}

/// Measures the round trips of reads that need a majority.
async fn measure(
    config: &Config,
    conn: &Conn,
    report: &mut ServerReport,
) -> Result<(), StoreError> {
    for _ in 0..SAMPLES {
        let sent = Instant::now();
        let first = PageRequest {
            key: keys::base(&config.namespace),
            range_end: Vec::new(),
            limit: 1,
            revision: 0,
        };
        let asked = conn.call::<_, PageResponse>(RANGE, first);
        let asked = async { asked.await.map_err(StoreError::from) };
        // The futures of all its requests are large together.
        Box::pin(within(config.response_limit, asked)).await?;
        report.round_trips.push(sent.elapsed());
    }
    Ok(())
}

async fn within<T>(
    limit: Duration,
    asked: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let answer = timeout(limit, asked).await;
    answer.unwrap_or_else(|_| Err(StoreError::timed_out(limit)))
}

#[cfg(test)]
mod tests {
    use dlock_runtime::store::{StoreErrorKind, StoreOptions};
    use dlock_testkit::EtcdServer;

    use super::*;
    use crate::{admin::messages::MemberHeader, scene::LONG};

    fn reported(status: &MemberStatus) -> Vec<String> {
        let mut report = ServerReport::new("etcd://h:1");
        set_status(&mut report, status);
        report
            .info
            .iter()
            .map(|(name, it)| format!("{name}={it}"))
            .collect()
    }

    #[test]
    fn a_report_has_the_state_of_its_member() {
        let sound = MemberStatus {
            header: Some(MemberHeader {
                cluster_id: 0xab,
                member_id: 0xcd,
                revision: 7,
            }),
            version: "3.5.16".to_owned(),
            db_size: 20,
            leader: 0xcd,
            errors: Vec::new(),
            db_size_in_use: 10,
            is_learner: false,
            db_size_quota: 0,
        };
        let usual = [
            "alarms=",
            "cluster_id=ab",
            "db_size=20",
            "db_size_in_use=10",
            "etcd_version=3.5.16",
            "has_leader=true",
            "is_leader=true",
            "is_learner=false",
            "member_id=cd",
            "revision=7",
        ];
        assert_eq!(reported(&sound), usual);
        for (status, differs) in [
            (
                MemberStatus {
                    leader: 0xef,
                    is_learner: true,
                    ..sound.clone()
                },
                &["is_leader=false", "is_learner=true"][..],
            ),
            (
                MemberStatus {
                    leader: 0,
                    ..sound.clone()
                },
                &["has_leader=false", "is_leader=false"],
            ),
            (
                MemberStatus {
                    version: "3.5.2".to_owned(),
                    ..sound.clone()
                },
                &[
                    "etcd_version=3.5.2",
                    "is_torn_by_kills=true",
                    "leases_fixed_in=3.5.13 or later",
                ],
            ),
            (
                MemberStatus {
                    version: "3.3.27".to_owned(),
                    ..sound.clone()
                },
                &["etcd_version=3.3.27", "is_too_old=true"],
            ),
            (
                MemberStatus {
                    errors: vec![
                        "memberID:8 alarm:CORRUPT ".to_owned(),
                        "memberID:9 alarm:NOSPACE ".to_owned(),
                        "etcdserver: no leader".to_owned(),
                    ],
                    ..sound.clone()
                },
                &["alarms=NOSPACE,CORRUPT"],
            ),
        ] {
            let reported = reported(&status);
            let others: Vec<_> = reported
                .iter()
                .filter(|it| !usual.contains(&&***it))
                .collect();
            assert_eq!(others, differs);
        }
    }

    #[tokio::test]
    async fn each_member_of_the_url_has_a_report_whether_or_not_it_answers() {
        let server = EtcdServer::start().await;
        let mut options = StoreOptions::default();
        options.response_timeout = LONG;
        options.connect_timeout = LONG;
        let url = format!("{},127.0.0.1:1", server.url());
        let config = Config::parse(&url, &options).unwrap();
        let reports = report(&Arc::new(config)).await;
        let [there, gone] = &reports[..] else {
            panic!("two members: {}", reports.len());
        };
        let names = [&*there.server, &*gone.server];
        assert_eq!(names, [&*server.url(), "etcd://127.0.0.1:1"]);
        for member in [there, gone] {
            assert_eq!(member.product.as_deref(), Some("etcd"));
        }
        assert_eq!(there.failure, None);
        assert!(there.version.is_some());
        assert_eq!(there.version.as_deref(), there.field("etcd_version"));
        assert_eq!(there.field("members"), there.field("member_id"));
        for (name, expected) in [
            ("user", ""),
            ("learners", ""),
            ("has_leader", "true"),
            ("reads_locks", "true"),
            ("is_proxied", "false"),
        ] {
            let found = there.field(name).unwrap_or_default();
            assert_eq!(found, expected, "{name}");
        }
        assert_eq!(there.number("db_size_quota"), Some(2_u64 << 30));
        assert!(there.denied.is_empty());
        assert_eq!(there.round_trips.len(), 20);
        let failure = gone.failure.as_ref().map(StoreError::kind);
        assert_eq!(failure, Some(StoreErrorKind::Unreachable));
        assert!(gone.version.is_none() && gone.round_trips.is_empty());
    }
}
