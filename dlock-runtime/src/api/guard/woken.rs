//! The next wake of any acquisition of a lease.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tokio::sync::futures::Notified;

use super::Lease;

pin_project! {
    /// Made before the acquisitions are looked at, it misses no wake.
    pub(super) struct Woken<'a> {
        #[pin]
        first: Notified<'a>,
        // One pointer, since it lies in the future of every locked function.
        others: Option<Box<OtherWakes<'a>>>,
    }
}

struct OtherWakes<'a>(Vec<Pin<Box<Notified<'a>>>>);

impl<'a> Woken<'a> {
    pub(super) fn of(lease: &'a Lease) -> Self {
        let others = lease.others.as_deref().map(|others| {
            let acquisitions = others.0.iter().map(|lease| &lease.place.acquisition);
            Box::new(OtherWakes(
                acquisitions
                    .map(|acquisition| Box::pin(acquisition.woken()))
                    .collect(),
            ))
        });
        Self {
            first: lease.place.acquisition.woken(),
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
            // Each has to know whom to wake.
            is_woken |= other.as_mut().poll(context).is_ready();
        }
        if is_woken {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
