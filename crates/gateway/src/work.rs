//! Where work on large answers is done: never on tokio's workers, and only so much at a time.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Saves that may be writing at once. More than cores, because a save waits for the disk; bounded, because a hung
/// network disk must not use up every thread.
const SAVES: usize = 32;

/// Two lanes: one for what needs the processor, as wide as there are cores, and one for what waits for a disk.
#[derive(Clone)]
pub struct Work {
    compute: Arc<Semaphore>,
    disk: Arc<Semaphore>,
}

impl Work {
    /// Lanes for this machine.
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self { compute: Arc::new(Semaphore::new(cores)), disk: Arc::new(Semaphore::new(SAVES)) }
    }

    /// Runs what needs the processor. `None` when it panicked.
    pub async fn compute<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        Self::run(&self.compute, job).await
    }

    /// Runs what waits for a disk. `None` when it panicked.
    pub async fn disk<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        Self::run(&self.disk, job).await
    }

    async fn run<T: Send + 'static>(
        lane: &Arc<Semaphore>,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = lane.clone().acquire_owned().await.ok()?;
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            job()
        })
        .await
        .ok()
    }
}
