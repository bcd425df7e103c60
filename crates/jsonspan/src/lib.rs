//! A streaming JSON scanner that reports spans and never recurses or copies.
//!
//! Feed a [`Scanner`] with the bytes of one JSON value in pieces of any size. It checks the grammar of RFC 8259 strictly and
//! calls back with one [`Event`] for each token, which says where the token lies and, if the token is short, what it is.
//! Nothing is built and nothing is kept but one bit for each open container, so a value of any size or depth costs the same
//! small memory. [`Unescape`] decodes the inside of a string literal as a stream, [`escape_into`] writes one.

mod escape;
mod event;
mod scanner;
mod stack;
mod utf8;

pub use escape::{Unescape, escape_inside, escape_into};
pub use event::{CAPTURE, Event, Span, Token};
pub use scanner::{MAX_DEPTH, Scanner, SyntaxError, check};
