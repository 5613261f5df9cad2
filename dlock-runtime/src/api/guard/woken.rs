//! A future that resolves at the next wake-up of any acquisition of a lease.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tokio::sync::futures::Notified;

use crate::engine::acquisition::Acquisition;

pin_project! {
    /// Create it before you check the acquisitions: then no wake-up is missed.
    pub(super) struct Woken<'a> {
        #[pin]
        first: Notified<'a>,
        // One pointer, because it is part of the future of every locked function.
        others: Option<Box<OtherWakes<'a>>>,
    }
}

struct OtherWakes<'a>(Vec<Pin<Box<Notified<'a>>>>);

impl<'a> Woken<'a> {
    pub(super) fn of(
        first: &'a Acquisition,
        others: Option<impl Iterator<Item = &'a Acquisition>>,
    ) -> Self {
        let others = others.map(|others| {
            let others = others.map(|other| Box::pin(other.woken()));
            Box::new(OtherWakes(others.collect()))
        });
        Self {
            first: first.woken(),
            others,
        }
    }
}

impl Future for Woken<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let mut is_woken = this.first.poll(context).is_ready();
        for other in this.others.iter_mut().flat_map(|others| &mut others.0) {
            // Every future must be polled, so that each registers the task to wake.
            is_woken |= other.as_mut().poll(context).is_ready();
        }
        if is_woken {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
