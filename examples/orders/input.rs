//! The input: a file of webhooks in which many orders occur more than once.

use std::{collections::BTreeMap, fs, path::Path};

use crate::error::Error;

/// A webhook: this order has been paid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) merchant: String,
    pub(crate) amount_cents: u64,
}

pub(crate) fn read(path: &Path) -> Result<Vec<Order>, Error> {
    let text = fs::read_to_string(path).map_err(Error::file(path))?;
    let malformed = |line, reason| Error::Malformed {
        path: path.to_owned(),
        line,
        reason,
    };
    let mut lines = text.lines().zip(1..);
    if lines.next().map(|(header, _)| header) != Some("order,merchant,amount_cents") {
        return Err(malformed(1, "expected `order,merchant,amount_cents`"));
    }
    let mut webhooks = Vec::new();
    let mut first = BTreeMap::new();
    for (text, line) in lines {
        let order = parse(text).map_err(|reason| malformed(line, reason))?;
        // Contradicting lines have no correct total.
        if first
            .entry(order.id.clone())
            .or_insert_with(|| order.clone())
            != &order
        {
            return Err(malformed(
                line,
                "an earlier line has other values for this order",
            ));
        }
        webhooks.push(order);
    }
    Ok(webhooks)
}

fn parse(line: &str) -> Result<Order, &'static str> {
    let fields: Vec<_> = line.split(',').collect();
    let [id, merchant, amount_cents] = fields[..] else {
        return Err("expected three fields");
    };
    // Both become words in the ledger. The order becomes a file name.
    let is_word = |text: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !text.is_empty() && text.chars().all(allowed)
    };
    if !is_word(id) || !is_word(merchant) {
        return Err("order and merchant must consist of letters, digits, `-` and `_`");
    }
    Ok(Order {
        id: id.to_owned(),
        merchant: merchant.to_owned(),
        amount_cents: amount_cents
            .parse()
            .map_err(|_| "the amount must be a number of cents")?,
    })
}

/// Returns each order once.
pub(crate) fn distinct(webhooks: &[Order]) -> BTreeMap<&str, &Order> {
    webhooks
        .iter()
        .map(|order| (order.id.as_str(), order))
        .collect()
}

/// Shuffles neighbouring webhooks by `seed`.
///
/// Webhooks reach all servers at about the same time, in different orders. A shuffle of the whole file would keep the
/// workers apart; here they compete for the same orders.
pub(crate) fn shuffle(webhooks: &mut [Order], seed: u64) {
    const NEIGHBOURS: usize = 200;
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for part in webhooks.chunks_mut(NEIGHBOURS) {
        for last in (1..part.len()).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = random % (last as u64 + 1);
            part.swap(last, usize::try_from(other).unwrap_or(last));
        }
    }
}
