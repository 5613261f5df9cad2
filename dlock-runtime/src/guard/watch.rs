//! The body of a section, which runs as long as its lease is valid.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tokio::sync::futures::Notified;
use tracing::span::Entered;

use crate::{error::LockError, held, keeper, options::OnLost, section::Section};

pin_project! {
    /// The future of [`LockGuard::watch`].
    //
    // Compiled for every locked function: what does not depend on the body is in `Watching`.
    #[must_use = "futures do nothing unless polled"]
    pub struct Watch<'a, F> {
        #[pin]
        watching: Watching<'a>,
        #[pin]
        body: Option<F>,
    }
}

impl<F: Future> Future for Watch<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut inside = this.watching.enter(context);
        if let Some(error) = inside.lost.take() {
            this.body.set(None);
            return Poll::Ready(Err(error));
        }
        let body = this.body.as_pin_mut();
        let body = body.expect("a future is not polled after its end");
        body.poll(context).map(Ok)
    }
}

impl<'a, F> Watch<'a, F> {
    pub(super) fn new(section: &'a Arc<Section>, body: F) -> Self {
        Self {
            watching: Watching::new(section),
            body: Some(body),
        }
    }
}

pin_project! {
    /// The lease of a [`Watch`], and whether its body has started.
    struct Watching<'a> {
        section: &'a Arc<Section>,
        #[pin]
        ring: Notified<'a>,
        started: bool,
    }
}

/// What must be alive while a body is polled, or while it is dropped because the lease is lost.
//
// Fields are dropped from first to last: what was entered last is left first.
struct Inside<'a> {
    lost: Option<LockError>,
    _held: Option<held::Scope>,
    _span: Entered<'a>,
}

impl<'a> Watching<'a> {
    fn new(section: &'a Arc<Section>) -> Self {
        Self {
            section,
            ring: section.ring(),
            started: false,
        }
    }

    fn enter(self: Pin<&mut Self>, context: &mut Context<'_>) -> Inside<'a> {
        let mut this = self.project();
        let section = *this.section;
        if !*this.started {
            // The guard may have come here from a runtime that has ended.
            keeper::ensure(section);
        }
        if section.timing.on_lost == OnLost::Cancel || !*this.started {
            // Registered before the check, a loss in between is not missed.
            while this.ring.as_mut().poll(context).is_ready() {
                this.ring.set(section.ring());
            }
            if let Err(loss) = section.check() {
                return Inside {
                    _span: section.span.enter(),
                    _held: None,
                    lost: Some(section.lost_error(loss)),
                };
            }
            *this.started = true;
        }
        Inside {
            _span: section.span.enter(),
            _held: Some(held::enter(section.shared.id(), section.key())),
            lost: None,
        }
    }
}
