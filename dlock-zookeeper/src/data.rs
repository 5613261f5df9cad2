//! The text of a child: the TTL and the names of its owner.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_runtime::store::Holder;
use zookeeper_client::Error;

use crate::{names, session::Session};

pub(crate) fn data(ttl: Duration, (label, function): (&str, &str)) -> String {
    format!("{} {label} {function}", ttl.as_millis())
}

/// Reads the owner of the first child; `None` if the child is gone.
pub(crate) async fn holder(
    session: &Session,
    directory: &str,
    first: &names::Child,
) -> Result<Option<Holder>, Error> {
    let path = format!("{directory}/{}", first.name);
    let (data, stat) = match session.client.get_data(&path).await {
        Ok(read) => read,
        Err(Error::NoNode) => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&data);
    let mut words = text.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (ttl, label, function) = (word(), word(), word());
    let fence = u64::try_from(stat.czxid).unwrap_or(0);
    let mut holder = Holder::new(fence).fence(fence);
    if let Ok(ttl) = ttl.parse().map(Duration::from_millis) {
        // For people: the clock is that of the server.
        let written = Duration::from_millis(u64::try_from(stat.mtime).unwrap_or(0));
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        holder = holder.ttl(ttl.saturating_sub(now.saturating_sub(written)));
    }
    if !label.is_empty() {
        holder = holder.label(label);
    }
    if !function.is_empty() {
        holder = holder.function(function);
    }
    Ok(Some(holder))
}
