//! A key as a queue in plain words: no rows, no row locks and no clock.

/// The modes of a lock, as the functions number them.
pub(crate) const EXCLUSIVE: i32 = 0;
pub(crate) const SHARED: i32 = -1;

/// A holder of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) owner: String,
    pub(crate) fence: i64,
    pub(crate) number: i64,
    pub(crate) label: Option<String>,
    pub(crate) function: Option<String>,
    pub(crate) has_ended: bool,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) owner: String,
    pub(crate) most: i32,
    pub(crate) label: Option<String>,
    /// The number that it may get, if none that is greater is given before.
    pub(crate) number: Option<i64>,
    pub(crate) is_dead: bool,
}

/// A request for the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) owner: &'a str,
    pub(crate) most: i32,
    pub(crate) waits: bool,
    pub(crate) label: &'a str,
    pub(crate) function: &'a str,
}

/// What the server has done beside: it alone chooses numbers.
pub(crate) trait Server {
    /// The number of a grant, which is greater than `last`. `reserved` was chosen when the holder came to the queue.
    fn number_of_grant(&self, owner: &str, last: i64, reserved: Option<i64>) -> i64;

    /// The number that a place in the queue has reserved.
    fn number_of_place(&self, owner: &str, last: i64) -> i64;
}

/// What a request does, beside its answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// The waiters that have been granted the key, in the order of the queue.
    pub(crate) granted: Vec<String>,
    /// The holders whose lease an operator has ended.
    pub(crate) unlocked: Vec<String>,
}

/// The holders and waiters of a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    /// In the order of their grants.
    pub(crate) holders: Vec<Holder>,
    /// In the order of their arrival.
    pub(crate) waiters: Vec<Waiter>,
    /// Whether the key has a row for its numbers.
    pub(crate) has_row: bool,
    pub(crate) last: i64,
    pub(crate) epoch: i64,
    pub(crate) is_shared: bool,
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Queue {
    pub(crate) fn holder(&self, owner: &str) -> Option<&Holder> {
        self.holders.iter().find(|it| it.owner == owner)
    }

    pub(crate) fn place(&self, owner: &str) -> Option<usize> {
        self.waiters.iter().position(|it| it.owner == owner)
    }

    fn admits(&self, most: i32) -> bool {
        let holders = i32::try_from(self.holders.len()).unwrap();
        holders == 0 || most != EXCLUSIVE && self.is_shared && (most == SHARED || holders < most)
    }

    fn remove_ended(&mut self) {
        self.holders.retain(|it| !it.has_ended);
    }

    fn hold(&mut self, owner: &str, most: i32, number: i64) -> &mut Holder {
        if self.holders.is_empty() {
            self.epoch = number;
        }
        self.last = number;
        self.is_shared = most != EXCLUSIVE;
        self.holders.push(Holder {
            owner: owner.to_owned(),
            fence: self.epoch,
            number,
            label: None,
            function: None,
            has_ended: false,
        });
        self.holders.last_mut().unwrap()
    }

    /// The waiters at the head hold the key as long as it lets them in; none at or behind the place of `before`.
    fn grant(&mut self, server: &impl Server, before: Option<&str>, effects: &mut Effects) {
        loop {
            let dead = self.waiters.iter().take_while(|it| it.is_dead).count();
            self.waiters.drain(..dead);
            let Some(first) = self.waiters.first() else {
                return;
            };
            if Some(&*first.owner) == before || !self.admits(first.most) {
                return;
            }
            let first = self.waiters.remove(0);
            let number = server.number_of_grant(&first.owner, self.last, first.number);
            self.hold(&first.owner, first.most, number);
            effects.granted.push(first.owner);
            if first.most == EXCLUSIVE {
                return;
            }
        }
    }

    /// Has a lease from now on, or a place in the queue. Returns whether it has a lease.
    pub(crate) fn acquire(
        &mut self,
        request: Request<'_>,
        server: &impl Server,
        effects: &mut Effects,
    ) -> bool {
        let Request { owner, most, .. } = request;
        self.has_row = true;
        if self.renew(owner, request.label, request.function) {
            return true;
        }
        self.remove_ended();
        self.grant(server, Some(owner), effects);
        let place = self.place(owner);
        let is_next = self.waiters.is_empty() || place == Some(0);
        if is_next && self.admits(most) {
            let number = server.number_of_grant(owner, self.last, None);
            let own = self.hold(owner, most, number);
            own.label = text(request.label);
            own.function = text(request.function);
            if place.is_some() {
                self.waiters.remove(0);
                if most != EXCLUSIVE {
                    self.grant(server, None, effects);
                }
            }
            return true;
        }
        match place {
            Some(place) if request.waits => {
                self.waiters[place].most = most;
                self.waiters[place].is_dead = false;
            }
            None if request.waits => self.waiters.push(Waiter {
                owner: owner.to_owned(),
                most,
                label: text(request.label),
                number: (most == EXCLUSIVE).then(|| server.number_of_place(owner, self.last)),
                is_dead: false,
            }),
            _ => {}
        }
        false
    }

    /// Renews a lease that has not ended.
    pub(crate) fn renew(&mut self, owner: &str, label: &str, function: &str) -> bool {
        let mut living = self.holders.iter_mut().filter(|it| !it.has_ended);
        let Some(own) = living.find(|it| it.owner == owner) else {
            return false;
        };
        if !label.is_empty() {
            own.label = text(label);
            own.function = text(function);
        }
        true
    }

    /// Gives up a lease or a place. Returns whether there was a lease that had not ended.
    pub(crate) fn release(
        &mut self,
        owner: &str,
        server: &impl Server,
        effects: &mut Effects,
    ) -> bool {
        // A key without a row is one that has been forgotten.
        if !self.has_row {
            return false;
        }
        let was_held = self.holder(owner).is_some_and(|it| !it.has_ended);
        self.holders.retain(|it| it.owner != owner);
        self.waiters.retain(|it| it.owner != owner);
        self.remove_ended();
        self.grant(server, None, effects);
        was_held
    }

    /// Ends the lease of one owner, or those of all, with this fence.
    pub(crate) fn unlock(
        &mut self,
        owner: Option<&str>,
        fence: i64,
        server: &impl Server,
        effects: &mut Effects,
    ) -> bool {
        let is_meant =
            |it: &Holder| owner.is_none_or(|owner| it.owner == owner) && it.fence == fence;
        let meant = self.holders.iter().filter(|it| is_meant(it));
        effects.unlocked = meant.map(|it| it.owner.clone()).collect();
        if effects.unlocked.is_empty() {
            return false;
        }
        self.holders.retain(|it| !is_meant(it));
        self.remove_ended();
        if self.has_row {
            self.grant(server, None, effects);
        }
        true
    }
}
