//! JSON becomes TOON without loss, or stays as it is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    missing_docs
)]

mod decide;
mod decoder;
mod fixtures;
mod random;
mod round_trip;
mod value;
