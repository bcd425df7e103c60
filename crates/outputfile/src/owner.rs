//! Acting as the owner of a root: on a thread of its own, which ends with the work.

use std::sync::Arc;
use std::thread;

use crate::sys::{Credentials, Fault};

/// Whose identity the system sees when files are looked at and made.
#[derive(Debug, Clone)]
pub(crate) enum Acting {
    Ourselves { uid: u32 },
    As(Arc<Credentials>),
}

impl Acting {
    pub(crate) fn uid(&self) -> u32 {
        match self {
            Self::Ourselves { uid } => *uid,
            Self::As(owner) => owner.uid,
        }
    }

    /// The identity, if it is not ours.
    pub(crate) fn owner(&self) -> Option<&Credentials> {
        match self {
            Self::Ourselves { .. } => None,
            Self::As(owner) => Some(owner),
        }
    }

    /// Runs `work` with this identity and waits for it.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Fault> {
        let Self::As(owner) = self else { return Ok(work()) };
        thread::scope(|scope| {
            let thread = builder().spawn_scoped(scope, || owner.assume().map(|()| work()));
            let thread = thread.map_err(|error| Fault::other(format!("no thread: {error}")))?;
            thread.join().unwrap_or_else(|_| Err(Fault::other("the thread of the owner ended early")))
        })
    }

    /// Runs `work` on a thread that has this identity and lives for it.
    pub(crate) fn spawn(
        &self,
        work: impl FnOnce(Result<(), Fault>) + Send + 'static,
    ) -> Result<thread::JoinHandle<()>, Fault> {
        let acting = self.clone();
        let body = move || work(acting.owner().map_or(Ok(()), Credentials::assume));
        builder().spawn(body).map_err(|error| Fault::other(format!("no thread: {error}")))
    }
}

fn builder() -> thread::Builder {
    thread::Builder::new().name(String::from("save-as-owner"))
}
