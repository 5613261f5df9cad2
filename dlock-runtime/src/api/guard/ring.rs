//! The next ring of any section of a lease.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tokio::sync::futures::Notified;

use super::Lease;

pin_project! {
    /// Made before the sections are looked at, it misses no ring.
    pub(super) struct Ring<'a> {
        #[pin]
        first: Notified<'a>,
        // One pointer, since it lies in the future of every locked function.
        others: Option<Box<Others<'a>>>,
    }
}

struct Others<'a>(Vec<Pin<Box<Notified<'a>>>>);

impl<'a> Ring<'a> {
    pub(super) fn of(lease: &'a Lease) -> Self {
        let others = lease.others.as_deref().map(|others| {
            let sections = others.0.iter().map(|lease| &lease.place.section);
            Box::new(Others(
                sections.map(|section| Box::pin(section.ring())).collect(),
            ))
        });
        Self {
            first: lease.place.section.ring(),
            others,
        }
    }
}

impl Future for Ring<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let mut rings = this.first.poll(context).is_ready();
        for other in this.others.iter_mut().flat_map(|others| &mut others.0) {
            // Each has to know whom to wake.
            rings |= other.as_mut().poll(context).is_ready();
        }
        if rings {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
