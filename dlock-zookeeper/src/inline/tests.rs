use std::{
    sync::atomic::{AtomicBool, AtomicUsize},
    thread::{self, ThreadId},
    time::Duration,
};

use tokio::time::{sleep, timeout};

use super::*;
use crate::worker::Worker;

const LIMIT: Duration = Duration::from_secs(30);

fn this_thread() -> ThreadId {
    thread::current().id()
}

async fn within<T>(answer: oneshot::Receiver<T>) -> Option<T> {
    timeout(LIMIT, answer).await.expect("it ends").ok()
}

/// A session that does this once it is let go.
fn session(tasks: &Tasks, gate: oneshot::Receiver<()>, work: impl FnOnce() + Send + 'static) {
    let work = async move {
        gate.await.ok();
        work();
    };
    let task = Task::new(&tasks.worker, true, Box::pin(work));
    locked(&tasks.sessions).push(Arc::downgrade(&task));
    task.wake();
}

#[tokio::test]
async fn a_request_begins_on_the_thread_of_its_caller() {
    let worker = Worker::start().unwrap();
    let mut answer = worker.tasks().run(async { this_thread() });
    assert_eq!(answer.try_recv(), Ok(this_thread()));
}

#[tokio::test]
async fn a_task_goes_on_without_its_caller() {
    let worker = Worker::start().unwrap();
    let (open, gate) = oneshot::channel::<()>();
    let (tell, told) = oneshot::channel();
    drop(worker.tasks().run(async move {
        gate.await.ok();
        tell.send(this_thread())
    }));
    open.send(()).unwrap();
    // It was woken by a thread that runs no session.
    assert_ne!(within(told).await, Some(this_thread()));
}

#[tokio::test]
async fn a_request_has_the_timers_of_the_thread_of_the_store() {
    let worker = Worker::start().unwrap();
    let tasks = worker.tasks().clone();
    let begun = thread::spawn(move || tasks.run(async { sleep(Duration::from_millis(1)).await }));
    assert_eq!(within(begun.join().unwrap()).await, Some(()));
}

#[tokio::test]
async fn a_session_and_the_requests_that_it_wakes_run_on_the_thread_that_wakes_it() {
    let worker = Worker::start().unwrap();
    let (open, gate) = oneshot::channel();
    let (answer, answered) = oneshot::channel::<()>();
    session(worker.tasks(), gate, || answer.send(()).unwrap());
    let mut request = worker.tasks().run(async {
        answered.await.ok();
        this_thread()
    });
    assert!(request.try_recv().is_err());
    open.send(()).unwrap();
    assert_eq!(request.try_recv(), Ok(this_thread()));
}

#[tokio::test]
async fn requests_that_are_begun_together_run_their_session_once() {
    let worker = Worker::start().unwrap();
    let polls = Arc::new(AtomicUsize::new(0));
    let waker = Arc::new(Mutex::new(None));
    let (count, keep) = (polls.clone(), waker.clone());
    let work = poll_fn(move |context| {
        count.fetch_add(1, Ordering::SeqCst);
        *locked(&keep) = Some(context.waker().clone());
        Poll::Pending
    });
    Task::new(worker.handle(), true, Box::pin(work)).wake();
    assert_eq!(polls.load(Ordering::SeqCst), 1);
    let wake = move || {
        let waker: Option<Waker> = locked(&waker).clone();
        waker.unwrap().wake();
    };
    let begin = async move { (0..50).for_each(|_| wake()) };
    worker.handle().spawn(together(begin)).await.unwrap();
    assert_eq!(polls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn tasks_run_behind_work_that_panics() {
    let worker = Worker::start().unwrap();
    let (tell, told) = oneshot::channel();
    let tasks = worker.tasks().clone();
    let panics = async move {
        drop(tasks.run(async { tell.send(()) }));
        panic!("on purpose");
    };
    let panicked = worker.handle().spawn(together::<()>(panics)).await;
    assert!(panicked.is_err());
    assert_eq!(within(told).await, Some(()));
}

#[tokio::test]
async fn a_task_that_is_woken_by_another_one_runs_behind_it() {
    let worker = Worker::start().unwrap();
    let mutex = Arc::new(Mutex::new(()));
    let (open, gate) = oneshot::channel();
    let other = mutex.clone();
    let mut second = worker.tasks().run(async move {
        gate.await.ok();
        other.try_lock().is_ok()
    });
    drop(worker.tasks().run(async move {
        let _held = locked(&mutex);
        open.send(())
    }));
    assert_eq!(second.try_recv(), Ok(true));
}

#[tokio::test]
async fn a_thread_is_not_kept_for_the_tasks_of_others() {
    let worker = Worker::start().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let here = Arc::new(AtomicUsize::new(0));
    let (ends, count, own) = (is_over.clone(), here.clone(), this_thread());
    let busy = poll_fn(move |context| {
        if this_thread() == own {
            count.fetch_add(1, Ordering::SeqCst);
        }
        // Without this bound, a mistake would never end.
        if ends.load(Ordering::SeqCst) || count.load(Ordering::SeqCst) > 10 * MOST {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    });
    let answer = worker.tasks().run(busy);
    assert!(here.load(Ordering::SeqCst) <= MOST);
    is_over.store(true, Ordering::SeqCst);
    assert_eq!(within(answer).await, Some(()));
}

#[tokio::test]
async fn a_panic_ends_its_request_alone() {
    let worker = Worker::start().unwrap();
    let panics = worker.tasks().run(async { panic!("a mistake") });
    assert!(within::<()>(panics).await.is_none());
    assert_eq!(within(worker.tasks().run(async { 7 })).await, Some(7));
}

#[tokio::test]
async fn a_forked_child_runs_no_task() {
    struct Noted(Arc<AtomicBool>);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let worker = Worker::start().unwrap();
    let (was_polled, was_dropped) = (Arc::default(), Arc::<AtomicBool>::default());
    let (polled, noted) = (
        Arc::<AtomicBool>::clone(&was_polled),
        Noted(was_dropped.clone()),
    );
    let work = async move {
        let _noted = noted;
        polled.store(true, Ordering::SeqCst);
    };
    let task = Arc::new(Task {
        process: process::id().wrapping_add(1),
        ..Arc::into_inner(Task::new(worker.handle(), true, Box::pin(work))).unwrap()
    });
    Waker::from(task).wake();
    assert!(!was_polled.load(Ordering::SeqCst));
    assert!(
        !was_dropped.load(Ordering::SeqCst),
        "its socket leaves the selector"
    );
}

#[tokio::test]
async fn the_sessions_of_a_store_end_with_its_thread() {
    let worker = Worker::start().unwrap();
    let (_open, gate) = oneshot::channel();
    let (noted, dropped) = oneshot::channel::<()>();
    session(worker.tasks(), gate, || drop(noted));
    drop(worker);
    assert_eq!(within(dropped).await, None);
}
