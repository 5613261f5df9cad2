//! The list of processes: those with a record, and those that are known only by the labels of their leases.

use std::{
    collections::{BTreeMap, HashMap},
    time::UNIX_EPOCH,
};

use dlock_admin::{ProcessInfo, view::THIRD_PARTY};
use dlock_runtime::store::ClientId;

use super::{
    picture::{Picture, Share},
    views::ProcessRow,
};

/// Returns the processes of a picture. A holder or waiter without a record, as in a store that keeps none, is listed too.
pub(super) fn rows(picture: &Picture) -> Vec<ProcessRow> {
    let mut shares: HashMap<_, _> = picture
        .shares()
        .into_iter()
        .map(|share| (share.client, share))
        .collect();
    let records = picture.processes.iter().flatten();
    let mut rows: Vec<_> = records
        .map(|process| {
            let share = shares.remove(&Some(process.client));
            let (holds, waits) = share.map_or((0, 0), |it| (it.holds, it.waits));
            ProcessRow::of(process, holds, waits)
        })
        .collect();
    let mut by_label: BTreeMap<Option<&str>, (Option<ClientId>, usize, usize)> = BTreeMap::new();
    for share in shares.values().filter(|it| it.holds + it.waits > 0) {
        let sum = by_label.entry(label(share)).or_default();
        sum.0 = sum.0.or(share.client);
        sum.1 += share.holds;
        sum.2 += share.waits;
    }
    rows.extend(by_label.into_iter().map(|(label, (client, holds, waits))| {
        let parts = client.zip(label);
        let parts = parts.map(|(client, label)| ProcessInfo::new(client, label, UNIX_EPOCH, ""));
        // Without a process id, the label has another form.
        let parts = parts.filter(|it| it.pid != 0);
        ProcessRow::named(label, parts.as_ref(), holds, waits)
    }));
    rows
}

fn label<'a>(share: &Share<'a>) -> Option<&'a str> {
    match share.client {
        Some(_) => share.label,
        None => Some(THIRD_PARTY),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use dlock_admin::{HolderInfo, LockInfo, Overview, WaiterInfo};
    use dlock_runtime::{
        random::SystemRandom,
        store::{LockMode, OwnerId},
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::picture::Draft;

    fn held(key: &str, owner: Option<OwnerId>, label: Option<&str>) -> LockInfo {
        let mut lock = LockInfo::new(key);
        let mut holder = HolderInfo::new(owner, 7, SystemTime::now());
        holder.label = label.map(str::to_owned);
        lock.add_holder(holder);
        lock
    }

    fn told(locks: &[LockInfo], rest: Overview) -> (Value, bool) {
        let mut draft = Draft::like(None);
        for lock in locks {
            draft.add(lock, 1000);
        }
        let picture = draft.finish(rest, 1000, Duration::ZERO);
        let rows = serde_json::to_value(rows(&picture)).unwrap();
        (rows, picture.processes.is_some())
    }

    #[test]
    fn processes_without_records_are_known_by_their_labels() {
        let clients: Vec<_> = (0..3).map(|_| ClientId::new(&SystemRandom)).collect();
        let owner = |client: usize, number| OwnerId::new(clients[client], number);
        let mut locks = vec![
            held("a", Some(owner(0, 1)), Some("billing@web-3/71")),
            // Another manager of the same process.
            held("b", Some(owner(1, 1)), Some("billing@web-3/71")),
            held("c", Some(owner(2, 1)), Some("of another form")),
            held("d", None, None),
        ];
        let mut waiter = WaiterInfo::new(owner(2, 2), LockMode::Exclusive);
        waiter.label = Some("of another form".to_owned());
        locks[0].add_waiter(waiter);
        // PostgreSQL counts the processes, and etcd does not.
        for process_count in [Some(2), Some(0), None] {
            let mut rest = Overview::default();
            rest.process_count = process_count;
            let (told, has_records) = told(&locks, rest);
            assert_eq!(has_records, process_count == Some(0));
            let of = |name: &str| -> Vec<_> {
                let rows = told.as_array().unwrap().iter();
                rows.map(|row| row[name].clone()).collect()
            };
            let third = json!(THIRD_PARTY);
            assert_eq!(
                of("label"),
                [third, json!("billing@web-3/71"), json!("of another form")]
            );
            assert_eq!(of("holds"), [1, 2, 1]);
            assert_eq!(of("waits"), [0, 0, 1]);
            assert_eq!(of("pid"), [Value::Null, json!(71), Value::Null]);
            assert_eq!(of("host"), [Value::Null, json!("web-3"), Value::Null]);
            assert_eq!(of("started"), [Value::Null, Value::Null, Value::Null]);
        }
    }

    #[test]
    fn a_record_counts_the_leases_of_its_client() {
        let client = ClientId::new(&SystemRandom);
        let other = ClientId::new(&SystemRandom);
        let mut rest = Overview::default();
        rest.process_count = Some(1);
        rest.processes = vec![ProcessInfo::new(client, "cron@host/1", UNIX_EPOCH, "0.1.0")];
        let locks = [
            held("a", Some(OwnerId::new(client, 1)), None),
            // It has not published its record for some time.
            held("b", Some(OwnerId::new(other, 1)), Some("late@host/2")),
        ];
        let (told, _) = told(&locks, rest);
        assert_eq!(told[0]["label"], "cron@host/1");
        assert_eq!(told[0]["client"], client.handle().to_string());
        assert_eq!(told[0]["version"], "0.1.0");
        assert_eq!(told[0]["holds"], 1);
        assert_eq!(told[1]["label"], "late@host/2");
        assert_eq!(told[1]["holds"], 1);
        assert_eq!(told[2], Value::Null);
    }
}
