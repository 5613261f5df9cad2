//! Compares the settlements with the orders.

use std::{collections::BTreeMap, time::Duration};

use crate::{coordinator::Killed, input::Order, ledger::Settlement, message::Tally};

type Records = BTreeMap<String, Vec<Settlement>>;

/// The faults that were found.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    pub(crate) faults: Vec<String>,
}

/// Prints the totals per merchant. Returns the faults of the totals and of single orders.
pub(crate) fn settlements(orders: &BTreeMap<&str, &Order>, records: &Records) -> Audit {
    let mut audit = Audit::default();
    let times = |order: &str| records.get(order).map_or(0, Vec::len);
    let (mut twice, mut never) = (Vec::new(), Vec::new());
    for &order in orders.keys() {
        match times(order) {
            0 => never.push(order),
            1 => {}
            _ => twice.push(order),
        }
    }
    let unknown: Vec<_> = records
        .keys()
        .map(String::as_str)
        .filter(|order| !orders.contains_key(order))
        .collect();
    audit.list("settled more than once", &twice);
    audit.list("not settled", &never);
    audit.list("not in the input", &unknown);
    audit.totals(orders, records);
    audit
}

impl Audit {
    fn totals(&mut self, orders: &BTreeMap<&str, &Order>, records: &Records) {
        let mut totals: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for order in orders.values() {
            totals.entry(&order.merchant).or_default().0 += order.amount_cents;
        }
        for settlement in records.values().flatten() {
            totals.entry(&settlement.merchant).or_default().1 += settlement.amount_cents;
        }
        println!("{:<12} {:>14} {:>14}", "merchant", "to settle", "settled");
        for (merchant, (expected, settled)) in totals {
            let (to_settle, is_settled) = (amount(expected), amount(settled));
            println!("{merchant:<12} {to_settle:>14} {is_settled:>14}");
            if expected != settled {
                let fault = format!("{merchant} was settled {is_settled} instead of {to_settle}");
                self.faults.push(fault);
            }
        }
    }

    fn list(&mut self, what: &str, orders: &[&str]) {
        const SHOWN: usize = 3;
        if orders.is_empty() {
            return;
        }
        let dots = if orders.len() > SHOWN { ", ..." } else { "" };
        let first = orders[..orders.len().min(SHOWN)].join(", ");
        let fault = format!("{} orders {what}: {first}{dots}", orders.len());
        self.faults.push(fault);
    }

    /// Returns `true` if another worker settled the order of a killed worker.
    pub(crate) fn take_over(&mut self, killed: &Killed, records: &Records) -> bool {
        let order = &killed.order;
        let settlements = records.get(order).map_or(&[][..], Vec::as_slice);
        let fault = match settlements {
            [one] if one.worker == killed.worker => "was settled by the worker that was killed",
            [one] if one.token <= killed.token => "was taken over with a token that is not greater",
            [one] => {
                let after = one.at.saturating_sub(killed.at);
                let (worker, token) = (one.worker, one.token);
                println!(
                    "worker {worker} took {order} over {:.2} s after the kill, token {token}",
                    after.as_secs_f64()
                );
                return true;
            }
            _ => "was not settled exactly once after the kill",
        };
        self.faults.push(format!("{order} {fault}"));
        false
    }
}

/// Prints the work of the workers that were not killed.
pub(crate) fn print_sections(tally: &Tally, workers: usize, elapsed: Duration) {
    let sections = tally.waits.len();
    let rate = u32::try_from(sections).map_or(0.0, f64::from) / elapsed.as_secs_f64();
    println!(
        "critical sections: {sections} by {workers} workers in {:.1} s, {rate:.0} per second; {} settled an order",
        elapsed.as_secs_f64(),
        tally.settled,
    );
}

/// Prints the waiting times and the errors of the workers.
pub(crate) fn print_waits(tally: &mut Tally) {
    tally.waits.sort_unstable();
    let last = tally.waits.len().saturating_sub(1);
    let wait = |percent: usize| {
        let wait = tally.waits.get(last * percent / 100);
        wait.map_or(0.0, |wait| wait.as_secs_f64() * 1000.0)
    };
    let (median, most, longest) = (wait(50), wait(99), wait(100));
    println!("waits for a lock: median {median:.1} ms, p99 {most:.1} ms, longest {longest:.1} ms");
    let (busy, errors, unreleased) = (tally.busy, tally.errors, tally.unreleased);
    println!("busy: {busy}, errors: {errors}, not released: {unreleased}");
}

fn amount(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}
