//! Search for many words at once: the quick way of a processor with vectors, or the usual one.

use std::ops::Range;

use aho_corasick::packed::{self, Searcher};
use aho_corasick::{AhoCorasick, Input, MatchKind, Span};

/// A search for words as they are written.
#[derive(Debug)]
pub(crate) enum Words {
    /// At most 64 of them.
    Quick(Searcher),
    /// Any number.
    Usual(AhoCorasick),
}

impl Words {
    /// Of words that begin at the same byte, the search finds the longest. `None` if there are no words.
    pub(crate) fn new<W: AsRef<[u8]>>(words: &[W]) -> Option<Words> {
        if words.is_empty() {
            return None;
        }
        let quick = packed::Config::new()
            .match_kind(packed::MatchKind::LeftmostLongest)
            .builder()
            .extend(words)
            .build();
        if let Some(quick) = quick {
            return Some(Words::Quick(quick));
        }
        AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(words).ok().map(Words::Usual)
    }

    /// Where the next word lies, and its place in the list.
    #[inline]
    pub(crate) fn find(&self, text: &[u8], range: Range<usize>) -> Option<(Range<usize>, usize)> {
        let hit = match self {
            Words::Quick(quick) => quick.find_in(text, Span::from(range))?,
            Words::Usual(usual) => usual.find(Input::new(text).range(range))?,
        };
        Some((hit.start()..hit.end(), hit.pattern().as_usize()))
    }
}
