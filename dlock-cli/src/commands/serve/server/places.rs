//! The places of connections: those that send no request make way for others.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// The connections that are open.
#[derive(Debug)]
pub(super) struct Places {
    /// The number of connections that are served.
    served: usize,
    /// The number of further connections that are refused.
    refused: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// The number of the next change.
    next: u64,
    connections: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    is_refused: bool,
    /// Since which change the connection has waited for a request; `None` while one is answered.
    idle_since: Option<u64>,
    makes_way: Arc<Notify>,
}

/// The right to be connected, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
    pub(super) is_refused: bool,
    makes_way: Arc<Notify>,
}

/// A request that is answered, until it is dropped.
#[derive(Debug)]
pub(super) struct Busy(Arc<Place>);

impl Places {
    pub(super) fn new(served: usize, refused: usize) -> Arc<Self> {
        Arc::new(Self {
            served,
            refused,
            open: Mutex::default(),
        })
    }

    /// Takes a place, and never waits for one. If none is free, it is that of a connection without a request. If there is none
    /// of these, the place is one to be refused.
    ///
    /// Returns `None` if not even such a place can be had.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut open = self.open();
        let is_refused = if open.has_room(false, self.served) {
            false
        } else if open.has_room(true, self.refused) {
            true
        } else {
            return None;
        };
        let makes_way = Arc::new(Notify::new());
        let id = open.change();
        open.connections.insert(
            id,
            Entry {
                address,
                is_refused,
                idle_since: Some(id),
                makes_way: makes_way.clone(),
            },
        );
        Some(Place {
            places: self.clone(),
            id,
            is_refused,
            makes_way,
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Every change is complete.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn change(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns `true` if there is room for another connection of a kind, of which there may be so many. A connection without a
    /// request is closed for it: of the address with the most of these the one that has waited longest. So an address that
    /// opens many takes no place from another one.
    fn has_room(&mut self, is_refused: bool, most: usize) -> bool {
        let of_kind = || {
            let all = self.connections.iter();
            all.filter(|(_, it)| it.is_refused == is_refused)
        };
        if of_kind().count() < most {
            return true;
        }
        let mut idle: HashMap<IpAddr, (usize, u64, u64)> = HashMap::new();
        for (id, entry) in of_kind() {
            let Some(since) = entry.idle_since else {
                continue;
            };
            let (count, first, of) = idle.entry(entry.address).or_insert((0, since, *id));
            *count += 1;
            if since < *first {
                (*first, *of) = (since, *id);
            }
        }
        let most_idle = idle
            .into_values()
            .max_by_key(|(count, first, _)| (*count, u64::MAX - first));
        let Some((_, _, id)) = most_idle else {
            return false;
        };
        if let Some(entry) = self.connections.remove(&id) {
            entry.makes_way.notify_one();
        }
        true
    }
}

impl Place {
    /// Waits until the connection has to make way for another one.
    pub(super) async fn ends(&self) {
        self.makes_way.notified().await;
    }

    /// Notes a request, which keeps the place until its response is complete.
    pub(super) fn serves(self: &Arc<Self>) -> Busy {
        self.set_idle(false);
        Busy(self.clone())
    }

    fn set_idle(&self, is_idle: bool) {
        let mut open = self.places.open();
        let now = open.change();
        if let Some(entry) = open.connections.get_mut(&self.id) {
            entry.idle_since = is_idle.then_some(now);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.open().connections.remove(&self.id);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set_idle(true);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const THIRD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

    fn has_to_end(place: &Place) -> bool {
        place.ends().now_or_never().is_some()
    }

    #[test]
    fn the_address_with_the_most_connections_without_a_request_makes_way() {
        let places = Places::new(4, 0);
        let early = places.take(OTHER).expect("there is room");
        let many = [ONE; 3].map(|it| places.take(it).expect("there is room"));
        let next = places.take(THIRD).expect("one of the many makes way");
        assert!(!next.is_refused);
        let ended: Vec<_> = many.iter().map(has_to_end).collect();
        assert_eq!(ended, [true, false, false]);
        assert!(!has_to_end(&early) && !has_to_end(&next));
        drop(next);
        places.take(THIRD).expect("a place was left");
    }

    #[test]
    fn a_request_keeps_its_place_until_its_response_is_complete() {
        let places = Places::new(2, 1);
        let [first, second] = [ONE, OTHER].map(|it| Arc::new(places.take(it).expect("room")));
        let busy = (first.serves(), second.serves());
        let refused = places.take(ONE).expect("it is told so");
        assert!(refused.is_refused);
        let next = places.take(OTHER).expect("it is told so");
        assert!(next.is_refused && has_to_end(&refused));
        let answering = Arc::new(next);
        let told = answering.serves();
        assert!(places.take(ONE).is_none(), "each place is in use");
        drop((told, answering));
        drop(busy.1);
        let third = Arc::new(places.take(THIRD).expect("the second waits again"));
        assert!(!third.is_refused && has_to_end(&second) && !has_to_end(&first));
        let _third = third.serves();
        // The connection that made way gives up no place of another one.
        drop(second);
        assert!(places.take(ONE).expect("it is told so").is_refused);
        drop(busy.0);
        let fourth = Arc::new(places.take(ONE).expect("the first waits again"));
        assert!(!fourth.is_refused && has_to_end(&first));
    }
}
