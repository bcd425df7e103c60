//! What an upstream said, and how it is made fit to pass on.
//!
//! An [`Answer`] is the raw result object and an index of what lies where in it. It passes two stages, each of which alone can
//! make the type that the next one asks for: [`schema::OutputSchema::check`] makes [`Checked`](schema::Checked), [`clean::clean`] makes
//! [`Redacted`]. Only a [`Redacted`] can be read out: as JSON, as a [`Rendition`], as a preview.
//!
//! No other crate can skip a stage:
//!
//! ```compile_fail
//! fn skip(answer: content::Answer) -> content::schema::Checked {
//!     content::schema::Checked { answer, fault: None, problem: None }
//! }
//! ```
//! ```compile_fail
//! fn skip(answer: content::Answer) -> content::Redacted {
//!     content::clean::clean(answer)
//! }
//! ```
//! ```compile_fail
//! fn skip(checked: content::schema::Checked) -> content::Redacted {
//!     content::Redacted { inner: std::sync::Arc::new(checked) }
//! }
//! ```
//! ```compile_fail
//! fn read(answer: content::Answer) {
//!     answer.json();
//! }
//! ```

mod answer;
pub mod clean;
mod index;
mod rendition;
pub mod schema;
pub mod shape;
mod source;

pub use answer::{Answer, Block, BlockKind, IndexError, MAX_BLOCKS};
pub use clean::Redacted;
pub use rendition::{Format, JsonReader, NoRendition, Rendition};
pub use source::Source;
