//! Writer: the bytes of one file on their way, on our thread or on one that acts as the owner of the root.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::error::SaveError;
use crate::job::Job;
use crate::owner::Acting;
use crate::roots::Roots;
use crate::sys::Fault;
use crate::target::Target;

/// A file that is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The path that exists now, by the form of the root that was asked for, with links below it resolved.
    pub path: PathBuf,
    /// The root that it lies in, as configured.
    pub root: PathBuf,
    /// Bytes in the file.
    pub bytes: u64,
    /// SHA-256 of the bytes in the file.
    pub sha256: [u8; 32],
    /// By which the file is known again.
    pub identity: Identity,
    /// Whether it took the place of another file.
    pub replaced: bool,
}

/// What a file is known again by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the inode, in nanoseconds since 1970.
    pub ctime_ns: i64,
}

/// Takes the bytes of one file. Dropped without [`Writer::commit`], it leaves nothing.
#[derive(Debug)]
pub struct Writer(Hand);

#[derive(Debug)]
enum Hand {
    Here(Box<Job>),
    There(Remote),
}

pub(crate) fn begin(roots: &Roots, target: Target) -> Result<Writer, SaveError> {
    let found = roots.0.matching(&target.path)?;
    let survey = roots.0.survey(found.root)?;
    let owned = roots.clone();
    if let Acting::Ourselves { .. } = survey.acting {
        let job = Job::start(owned, target, &found, &survey)?;
        return Ok(Writer(Hand::Here(Box::new(job))));
    }
    let (path, acting) = (target.path.clone(), survey.acting.clone());
    let start = move || Job::start(owned, target, &found, &survey);
    Remote::start(&acting, path, start).map(|remote| Writer(Hand::There(remote)))
}

impl Writer {
    /// Writes these bytes after the ones before.
    ///
    /// # Errors
    /// Over the limit, a full disk, a quota, or any other error; everything made so far is removed then.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), SaveError> {
        match &mut self.0 {
            Hand::Here(job) => job.put(bytes),
            Hand::There(remote) => remote.ask(Order::Put(bytes.to_vec())).map(drop),
        }
    }

    /// Says how many bytes will come, where that is known, so that too many are refused before one is written.
    ///
    /// # Errors
    /// More than one file may have.
    pub fn expect_bytes(&mut self, size: u64) -> Result<(), SaveError> {
        match &mut self.0 {
            Hand::Here(job) => job.expect(size),
            Hand::There(remote) => remote.ask(Order::Expect(size)).map(drop),
        }
    }

    /// Makes what was written so far durable, which is what takes long. The file has no name yet, so whoever changes
    /// their mind afterwards drops the writer and nothing is left. [`Writer::commit`] does it where it was not done.
    ///
    /// # Errors
    /// It could not; everything made so far is removed then.
    pub fn sync(&mut self) -> Result<(), SaveError> {
        match &mut self.0 {
            Hand::Here(job) => job.sync(),
            Hand::There(remote) => remote.ask(Order::Sync).map(drop),
        }
    }

    /// Makes the file durable and gives it its name.
    ///
    /// # Errors
    /// Why it could not; nothing is left then, except with [`SaveError::NotDurable`], where the file stays.
    pub fn commit(self) -> Result<Saved, SaveError> {
        match self.0 {
            Hand::Here(job) => job.commit(),
            Hand::There(mut remote) => {
                let path = remote.path.clone();
                remote.ask(Order::Commit)?.ok_or(SaveError::Spent { path })
            }
        }
    }
}

/// The error of a write holds the [`SaveError`] as its inner error.
impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A job on a thread that has the identity of the root's owner.
#[derive(Debug)]
struct Remote {
    path: String,
    orders: Option<SyncSender<Order>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Order {
    Put(Vec<u8>),
    Expect(u64),
    Sync,
    Commit,
}

/// Nothing to say, the file, or why not.
type Answer = Result<Option<Saved>, SaveError>;

impl Remote {
    fn start(
        acting: &Acting,
        path: String,
        start: impl FnOnce() -> Result<Job, SaveError> + Send + 'static,
    ) -> Result<Self, SaveError> {
        let (orders, inbox) = sync_channel(1);
        let (outbox, answers) = sync_channel(1);
        let shown = path.clone();
        let work = move |identity: Result<(), Fault>| {
            let started = match identity {
                Ok(()) => start(),
                Err(fault) => {
                    Err(SaveError::of(&fault, "acting as the owner of the root of", &shown, &shown))
                }
            };
            serve(started, &inbox, &outbox);
        };
        let thread = acting
            .spawn(work)
            .map_err(|fault| SaveError::of(&fault, "starting a thread for", &path, &path))?;
        let mut remote = Self { path, orders: Some(orders), answers, thread: Some(thread) };
        remote.answer()?;
        Ok(remote)
    }

    fn ask(&mut self, order: Order) -> Answer {
        // When the thread is gone, there is no answer either, and that is the error.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
        self.answer()
    }

    fn answer(&mut self) -> Answer {
        self.answers.recv().unwrap_or_else(|_| Err(SaveError::Spent { path: self.path.clone() }))
    }
}

/// The thread removes what it made before anybody goes on.
impl Drop for Remote {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(started: Result<Job, SaveError>, inbox: &Receiver<Order>, outbox: &SyncSender<Answer>) {
    let mut job = match started {
        Ok(job) => job,
        Err(error) => {
            let _ = outbox.send(Err(error));
            return;
        }
    };
    let mut answer = Ok(None);
    while outbox.send(answer).is_ok() {
        answer = match inbox.recv() {
            Ok(Order::Put(bytes)) => job.put(&bytes).map(|()| None),
            Ok(Order::Expect(size)) => job.expect(size).map(|()| None),
            Ok(Order::Sync) => job.sync().map(|()| None),
            Ok(Order::Commit) => {
                let _ = outbox.send(job.commit().map(Some));
                return;
            }
            Err(_) => return,
        };
    }
}
