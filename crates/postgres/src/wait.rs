//! Waiting for answers of the server in a thread that is not the runtime's.
//!
//! A caller's thread polls the client's futures itself and is parked between polls. So a request costs no task, and a caller
//! may be a thread of another runtime.
//! Invariant: such a future contains nothing of tokio. Tokio's primitives need its runtime, and count polls.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end in this thread.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Sends a request and ignores its answer: the client sends at the first poll.
pub(crate) fn send_only(request: impl Future) {
    let _ = pin!(request).poll(&mut Context::from_waker(Waker::noop()));
}

/// A request that has been sent.
pub(crate) enum Sent<'a, T> {
    /// It has been answered already.
    Answered(T),
    /// Its answer is awaited.
    Waiting(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

/// Sends a request without waiting for its answer, so that the next ones travel with it.
pub(crate) async fn send<'a, T: Send>(request: impl Future<Output = T> + Send + 'a) -> Sent<'a, T> {
    let mut request: Pin<Box<dyn Future<Output = T> + Send + 'a>> = Box::pin(request);
    match poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await {
        Poll::Ready(output) => Sent::Answered(output),
        Poll::Pending => Sent::Waiting(request),
    }
}

impl<T> Sent<'_, T> {
    /// The answer.
    pub async fn answer(self) -> T {
        match self {
            Sent::Answered(output) => output,
            Sent::Waiting(request) => request.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn wait_is_woken_by_another_thread() {
        let (tell, told) = channel::<Waker>();
        let waking = thread::spawn(move || {
            let waker = told.recv().unwrap();
            thread::sleep(Duration::from_millis(5));
            waker.wake();
        });
        let mut polls = 0;
        let answer = wait(poll_fn(|context| {
            polls += 1;
            if polls == 1 {
                tell.send(context.waker().clone()).unwrap();
                return Poll::Pending;
            }
            if waking.is_finished() || polls > 1 { Poll::Ready(7) } else { Poll::Pending }
        }));
        assert_eq!(answer, 7);
    }
}
