//! The tools of all servers: resolving an id, and finding tools by words (BM25 over weighted fields).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::index::{Counts, FIELDS, Index, WEIGHTS};
use crate::listed::Listed;
use crate::text::prefix;
use crate::words::{squashed, words};

/// Saturation of repeated words, and how much the length of a field matters.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// What a query that is the name of a tool is worth: more than any sum of words.
const EXACT: f64 = 100.0;
/// The same but for case and separators.
const ALIKE: f64 = 50.0;
/// A query that begins a name, or in which a name stands as a word.
const NEAR: f64 = 10.0;
/// Of a query, what is looked at: bytes and words.
const MAX_QUERY: usize = 2000;
const MAX_WORDS: usize = 32;

/// The tools of all servers. Cheap to clone: servers that do not change are shared.
#[derive(Clone, Default)]
pub struct Catalog {
    shelves: BTreeMap<String, Arc<Shelf>>,
}

/// The tools of one server.
struct Shelf {
    tools: Vec<Arc<Listed>>,
    /// Names as a query can begin them, by tool.
    squashed: Vec<String>,
    by_name: HashMap<String, u32>,
    index: Index,
}

/// A tool that was found.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The tool.
    pub listed: Arc<Listed>,
    /// How well it fits; above 0, and comparable only within one search.
    pub score: f64,
}

impl Catalog {
    /// This catalog with these tools as the server's only ones.
    #[must_use]
    pub fn with_server(&self, server: &str, tools: Vec<Listed>) -> Catalog {
        let mut next = self.clone();
        next.shelves.insert(server.to_owned(), Arc::new(Shelf::new(tools)));
        next
    }

    /// This catalog without the server.
    #[must_use]
    pub fn without_server(&self, server: &str) -> Catalog {
        let mut next = self.clone();
        next.shelves.remove(server);
        next
    }

    /// The tool of this name at this server.
    #[must_use]
    pub fn resolve(&self, server: &str, tool: &str) -> Option<Arc<Listed>> {
        let shelf = self.shelves.get(server)?;
        let place = *shelf.by_name.get(tool)?;
        shelf.tools.get(place as usize).cloned()
    }

    /// The tools of a server in the order in which it lists them; empty if it is not there.
    #[must_use]
    pub fn tools_of(&self, server: &str) -> &[Arc<Listed>] {
        self.shelves.get(server).map_or(&[], |shelf| &shelf.tools)
    }

    /// All tools: by server name, then in the order in which the server lists them.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Listed>> {
        self.shelves.values().flat_map(|shelf| &shelf.tools)
    }

    /// Number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shelves.values().map(|shelf| shelf.tools.len()).sum()
    }

    /// There is no tool.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tools that fit the query, best first; equal ones by tool id. The same query on the same tools gives the same
    /// list, in whatever order servers came and went.
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Vec<Hit> {
        let mut hits = self.ranked(query);
        hits.truncate(limit);
        hits
    }

    /// Every tool that fits, best first.
    pub(crate) fn ranked(&self, query: &str) -> Vec<Hit> {
        let query = Query::new(prefix(query, MAX_QUERY));
        let shelves: Vec<&Shelf> = self.shelves.values().map(Arc::as_ref).collect();
        let mut scores: Vec<Vec<f64>> = shelves.iter().map(|shelf| shelf.bonuses(&query)).collect();
        let average = average_lengths(&shelves);
        for word in &query.words {
            let found: Vec<Vec<(u32, Counts)>> = shelves.iter().map(|shelf| shelf.index.find(word)).collect();
            let rarity = rarity(self.len(), found.iter().map(Vec::len).sum());
            for ((shelf, scores), found) in shelves.iter().zip(&mut scores).zip(found) {
                for (tool, counts) in found {
                    let lengths = &shelf.index.lengths[tool as usize];
                    scores[tool as usize] += rarity * saturated(&counts, lengths, &average);
                }
            }
        }
        let mut hits: Vec<Hit> = Vec::new();
        for (shelf, scores) in shelves.iter().zip(scores) {
            let scored = shelf.tools.iter().zip(scores).map(|(tool, score)| (tool, rounded(score)));
            let fitting = scored.filter(|(_, score)| *score > 0.0);
            hits.extend(fitting.map(|(tool, score)| Hit { listed: Arc::clone(tool), score }));
        }
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.listed.id().cmp(b.listed.id())));
        hits
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let servers = self.shelves.iter().map(|(server, shelf)| (server, shelf.tools.len()));
        f.debug_map().entries(servers).finish()
    }
}

impl Shelf {
    fn new(tools: Vec<Listed>) -> Shelf {
        let index = Index::new(tools.iter());
        let mut by_name = HashMap::with_capacity(tools.len());
        for (place, tool) in (0u32..).zip(&tools) {
            by_name.entry(tool.tool.clone()).or_insert(place);
        }
        let squashed = tools.iter().map(|tool| squashed(&tool.tool)).collect();
        Shelf { squashed, by_name, index, tools: tools.into_iter().map(Arc::new).collect() }
    }

    /// What each tool is worth for its name alone.
    fn bonuses(&self, query: &Query) -> Vec<f64> {
        self.tools.iter().zip(&self.squashed).map(|(tool, squashed)| query.bonus(tool, squashed)).collect()
    }
}

/// A query, looked at from every side.
struct Query {
    whole: String,
    squashed: String,
    pieces: Vec<String>,
    words: Vec<String>,
}

impl Query {
    fn new(text: &str) -> Query {
        let whole = text.trim().to_lowercase();
        let pieces: Vec<String> = whole.split_whitespace().map(|piece| trimmed(piece).to_owned()).collect();
        // Identifiers are asked for as they stand, with and without their server.
        let names = pieces
            .iter()
            .flat_map(|piece| [Some(piece.as_str()), piece.split_once(':').map(|(_, tool)| tool)]);
        let wholes = names.flatten().filter(|name| name.contains(|c: char| !c.is_alphanumeric()));
        let mut all: Vec<String> = Vec::new();
        for word in words(text).into_iter().chain(wholes.flat_map(|name| [name.to_owned(), squashed(name)])) {
            if all.len() < MAX_WORDS && !word.is_empty() && !all.contains(&word) {
                all.push(word);
            }
        }
        Query { squashed: squashed(&whole), words: all, whole, pieces }
    }

    fn bonus(&self, tool: &Listed, name_squashed: &str) -> f64 {
        if self.squashed.is_empty() {
            return 0.0;
        }
        let same = |text: &str| same_lowercase(&tool.tool, text) || same_lowercase(tool.id(), text);
        if same(&self.whole) {
            EXACT
        } else if name_squashed == self.squashed {
            ALIKE
        } else if self.squashed.len() > 1 && name_squashed.starts_with(&self.squashed)
            || self.pieces.iter().any(|piece| piece.len() > 1 && same(piece))
        {
            NEAR
        } else {
            0.0
        }
    }
}

/// `lower` is in lower case already.
fn same_lowercase(name: &str, lower: &str) -> bool {
    if name.is_ascii() { name.eq_ignore_ascii_case(lower) } else { name.to_lowercase() == lower }
}

/// Without the punctuation of a sentence around it.
fn trimmed(piece: &str) -> &str {
    piece.trim_matches(|c: char| !c.is_alphanumeric() && c != '_')
}

fn average_lengths(shelves: &[&Shelf]) -> [f64; FIELDS] {
    let tools: usize = shelves.iter().map(|shelf| shelf.tools.len()).sum();
    let mut average = [1.0; FIELDS];
    for (field, average) in average.iter_mut().enumerate() {
        let total: u64 = shelves.iter().map(|shelf| shelf.index.totals[field]).sum();
        if total > 0 {
            *average = float(total) / float(tools as u64);
        }
    }
    average
}

/// Inverse document frequency: never negative, so that a word in every tool still counts a little.
fn rarity(tools: usize, found: usize) -> f64 {
    let (tools, found) = (float(tools as u64), float(found as u64));
    (1.0 + (tools - found + 0.5) / (found + 0.5)).ln()
}

fn saturated(counts: &Counts, lengths: &[u32; FIELDS], average: &[f64; FIELDS]) -> f64 {
    let mut weight = 0.0;
    for field in 0..FIELDS {
        if counts[field] > 0 {
            let length = 1.0 - B + B * f64::from(lengths[field]) / average[field];
            weight += WEIGHTS[field] * f64::from(counts[field]) / 2.0 / length;
        }
    }
    weight * (K1 + 1.0) / (weight + K1)
}

/// To six digits, so that the last bits of a logarithm, which platforms compute differently, decide nothing.
fn rounded(score: f64) -> f64 {
    (score * 1e6).round() / 1e6
}

/// Exact up to 2^53, which no count here reaches.
#[expect(clippy::cast_precision_loss, reason = "see above")]
fn float(count: u64) -> f64 {
    count as f64
}
