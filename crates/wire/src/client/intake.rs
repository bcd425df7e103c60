//! Brings the bytes of messages to an assembler, and those of large ones off the threads that serve everybody.

use std::sync::Arc;

use tokio::task::{JoinHandle, spawn_blocking};

use super::core::Core;
use crate::envelope::{Assembled, Assembler, Cause, Trouble};

/// Up to here a message is handled where it arrives.
const INLINE_BYTES: u64 = 1024 * 1024;
/// Beyond, it is handed over in pieces of this size.
const PIECE_BYTES: usize = 256 * 1024;

/// Takes messages one after the other and delivers them to the core.
pub(super) struct Intake {
    core: Arc<Core>,
    /// The call on whose own HTTP exchange the messages come.
    scope: Option<u64>,
    slot: Slot,
    waiting: Vec<u8>,
    len: u64,
    reported: bool,
}

enum Slot {
    Here(Box<Assembler>),
    Away(JoinHandle<(Box<Assembler>, Vec<u8>)>),
    Lost,
}

impl Intake {
    pub(super) fn new(core: &Arc<Core>, scope: Option<u64>) -> Intake {
        let slot = Slot::Here(Box::new(core.assembler()));
        Intake { core: Arc::clone(core), scope, slot, waiting: Vec::new(), len: 0, reported: false }
    }

    /// Bytes of the message that is being taken.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Takes the next bytes of the message.
    pub(super) async fn push(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        if self.len <= INLINE_BYTES {
            if let Slot::Here(assembler) = &mut self.slot {
                assembler.push(bytes);
                self.look();
            }
            return;
        }
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            bytes = later;
            if self.waiting.len() == PIECE_BYTES {
                self.hand_over().await;
            }
        }
    }

    /// Ends the message and delivers it.
    pub(super) async fn finish(&mut self) {
        if !self.waiting.is_empty() {
            self.hand_over().await;
        }
        self.settle().await;
        let small = self.len <= INLINE_BYTES;
        let reported = self.reported;
        let assembled = match self.renew() {
            Slot::Here(assembler) if small => assembler.finish(),
            Slot::Here(assembler) => {
                spawn_blocking(move || assembler.finish()).await.unwrap_or_else(|_| lost())
            }
            Slot::Away(_) | Slot::Lost => lost(),
        };
        self.core.deliver(assembled, self.scope, reported);
    }

    /// Ends the last message, of which it is not known whether it is whole. False if it was not.
    pub(super) async fn finish_last(&mut self) -> bool {
        if !self.waiting.is_empty() {
            self.hand_over().await;
        }
        self.settle().await;
        let whole = self.len == 0 || matches!(&self.slot, Slot::Here(assembler) if assembler.is_complete());
        if whole {
            self.finish().await;
        }
        whole
    }

    /// Forgets the message that was begun.
    pub(super) fn reset(&mut self) {
        drop(self.renew());
    }

    fn renew(&mut self) -> Slot {
        self.waiting = Vec::new();
        self.len = 0;
        self.reported = false;
        std::mem::replace(&mut self.slot, Slot::Here(Box::new(self.core.assembler())))
    }

    /// Gives the waiting bytes to a thread that may block; meanwhile more can arrive.
    async fn hand_over(&mut self) {
        self.settle().await;
        let piece = std::mem::take(&mut self.waiting);
        self.slot = match std::mem::replace(&mut self.slot, Slot::Lost) {
            Slot::Here(mut assembler) if assembler.is_settled() => {
                assembler.push(&piece);
                self.reuse(piece);
                Slot::Here(assembler)
            }
            Slot::Here(mut assembler) => Slot::Away(spawn_blocking(move || {
                assembler.push(&piece);
                (assembler, piece)
            })),
            other => other,
        };
        if self.waiting.capacity() == 0 {
            self.waiting.reserve_exact(PIECE_BYTES);
        }
        self.look();
    }

    /// Waits for the piece that was handed over last.
    async fn settle(&mut self) {
        if let Slot::Away(task) = &mut self.slot {
            self.slot = match task.await {
                Ok((assembler, piece)) => {
                    if self.waiting.is_empty() {
                        self.reuse(piece);
                    }
                    Slot::Here(assembler)
                }
                Err(_) => Slot::Lost,
            };
            self.look();
        }
    }

    fn reuse(&mut self, mut piece: Vec<u8>) {
        piece.clear();
        self.waiting = piece;
    }

    /// Tells what can be told before the message has ended, and lets go of an answer that nobody waits for.
    fn look(&mut self) {
        let Slot::Here(assembler) = &mut self.slot else { return };
        if self.reported {
            return;
        }
        if let Some(trouble) = assembler.trouble() {
            self.reported = self.core.report(&trouble, self.scope);
        } else if self.len > INLINE_BYTES
            && assembler.is_answer()
            && let Some(id) = assembler.id().and_then(super::core::call_id)
            && self.core.calls().was_left(id)
        {
            assembler.discard();
        }
    }
}

/// The thread that had the message did not give it back.
fn lost() -> Assembled {
    let cause = Cause::Io("the answer could not be kept: the program is ending".to_owned());
    Assembled::Failed(Trouble { id: None, answer: true, cause })
}
