//! The inverted index of one server's tools.

use std::collections::BTreeMap;

use crate::listed::Listed;
use crate::text::prefix;
use crate::words::{name_words, words};

/// How many fields a tool has for the search.
pub(crate) const FIELDS: usize = 5;
/// What a word counts in name, title, server, description and parameter names.
pub(crate) const WEIGHTS: [f64; FIELDS] = [4.0, 2.0, 1.5, 1.0, 0.7];

/// Of a description, what is looked at, in bytes.
const MAX_DESCRIPTION: usize = 16_384;
/// Parameter names that are looked at.
const MAX_PARAMETERS: usize = 256;
/// A shorter query word stands only for itself.
const MIN_PREFIX: usize = 3;
/// Words that one query word can stand for.
const MAX_EXPANSIONS: usize = 64;

/// How often a word stands in each field of one tool, twice, so that half a find is a whole number.
pub(crate) type Counts = [u32; FIELDS];

struct Posting {
    tool: u32,
    counts: [u16; FIELDS],
}

/// See the module.
#[derive(Default)]
pub(crate) struct Index {
    /// In order, so that all words with one beginning lie together.
    terms: Vec<(String, Vec<Posting>)>,
    /// Words in each field of each tool.
    pub(crate) lengths: Vec<[u32; FIELDS]>,
    /// Their sums.
    pub(crate) totals: [u64; FIELDS],
}

impl Index {
    pub(crate) fn new<'a>(tools: impl Iterator<Item = &'a Listed>) -> Index {
        let mut index = Index::default();
        let mut terms: BTreeMap<String, Vec<Posting>> = BTreeMap::new();
        for (tool, listed) in (0u32..).zip(tools) {
            let mut lengths = [0; FIELDS];
            let mut found: BTreeMap<String, [u16; FIELDS]> = BTreeMap::new();
            for (field, words) in field_words(listed).into_iter().enumerate() {
                lengths[field] = u32::try_from(words.len()).unwrap_or(u32::MAX);
                index.totals[field] += u64::from(lengths[field]);
                for word in words {
                    let counts = found.entry(word).or_default();
                    counts[field] = counts[field].saturating_add(1);
                }
            }
            index.lengths.push(lengths);
            for (word, counts) in found {
                terms.entry(word).or_default().push(Posting { tool, counts });
            }
        }
        index.terms = terms.into_iter().collect();
        index
    }

    /// The tools in which this word stands, or, for half as much, a word that begins with it; in the order of the tools.
    pub(crate) fn find(&self, word: &str) -> Vec<(u32, Counts)> {
        let from = self.terms.partition_point(|(term, _)| term.as_str() < word);
        let begins = self.terms[from..].iter().take_while(|(term, _)| term.starts_with(word));
        let mut found: BTreeMap<u32, Counts> = BTreeMap::new();
        for (term, postings) in begins.take(MAX_EXPANSIONS) {
            let exact = term == word;
            if !exact && word.len() < MIN_PREFIX {
                break;
            }
            for posting in postings {
                let counts = found.entry(posting.tool).or_default();
                for (sum, count) in counts.iter_mut().zip(posting.counts) {
                    *sum += u32::from(count) * if exact { 2 } else { 1 };
                }
            }
        }
        found.into_iter().collect()
    }
}

fn field_words(listed: &Listed) -> [Vec<String>; FIELDS] {
    let parameters = listed.parameters().iter().take(MAX_PARAMETERS);
    [
        name_words(&listed.tool),
        listed.title.as_deref().map(words).unwrap_or_default(),
        words(&listed.server),
        words(prefix(&listed.description, MAX_DESCRIPTION)),
        parameters.flat_map(|name| words(prefix(name, 256))).collect(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_tools;

    #[test]
    fn words_are_found_whole_for_two_and_as_a_beginning_for_one() {
        let raw = [
            r#"{"name":"read_file","description":"reads","inputSchema":{"properties":{"filePath":{}}}}"#,
            r#"{"name":"go","description":"profile"}"#,
        ];
        let tools = parse_tools("files", raw).0;
        let index = Index::new(tools.iter());
        // `file` in the name, in the server `files`, in the parameter filePath, and `filepath` begins with it.
        assert_eq!(index.find("file"), [(0, [2, 0, 2, 0, 3]), (1, [0, 0, 2, 0, 0])]);
        assert_eq!(index.find("prof"), [(1, [0, 0, 0, 1, 0])]);
        assert_eq!(index.find("pr"), []);
        assert_eq!(index.find("go"), [(1, [2, 0, 0, 0, 0])]);
        assert_eq!(index.find("zzz"), []);
    }
}
