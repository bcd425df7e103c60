//! What stands in the place of what was cut out, and why it was.

use std::sync::Arc;

use super::detect::Severity;

/// Why something was cut out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was a control character or invisible.
    Strip,
    /// A rule of the table, by its place there.
    Rule(usize),
    /// A pattern of the configuration, by its place there.
    Custom(usize),
    /// The value of a forwarded header, by its place in the list.
    Forwarded(usize),
}

/// What stands instead: nothing that would have to be escaped in JSON, however deep.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    text: Box<[u8]>,
    origin: Origin,
    weight: u8,
}

impl Mark {
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }
}

/// The marks of one answer: those of its configuration, and those made for single places.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    shared: Arc<Vec<Mark>>,
    own: Vec<Mark>,
}

/// The mark of everything that is stripped.
pub(crate) const STRIP: u32 = 0;

impl Marks {
    /// The mark for what is stripped comes first.
    pub(crate) fn shared(marks: impl Iterator<Item = (String, Origin, u8)>) -> Marks {
        let strip = (String::new(), Origin::Strip, 0);
        let marks = std::iter::once(strip).chain(marks);
        let shared =
            marks.map(|(text, origin, weight)| Mark { text: text.into_bytes().into(), origin, weight });
        Marks { shared: Arc::new(shared.collect()), own: Vec::new() }
    }

    pub(crate) fn get(&self, mark: u32) -> Option<&Mark> {
        let index = mark as usize;
        self.shared.get(index).or_else(|| self.own.get(index.checked_sub(self.shared.len())?))
    }

    /// The number of a mark that says `text` for the same reason as `like`.
    pub(crate) fn add(&mut self, text: Vec<u8>, like: u32) -> u32 {
        let (origin, weight) = self.get(like).map_or((Origin::Strip, 0), |mark| (mark.origin, mark.weight));
        self.own.push(Mark { text: text.into(), origin, weight });
        u32::try_from(self.shared.len() + self.own.len() - 1).unwrap_or(u32::MAX)
    }

    /// Adds a mark for each forwarded header, says the number of the first.
    pub(crate) fn add_forwarded(&mut self, names: &[String]) -> u32 {
        let first = self.shared.len() + self.own.len();
        self.own.extend(names.iter().enumerate().map(|(index, name)| Mark {
            text: format!("[forwarded:{name}]").into_bytes().into(),
            origin: Origin::Forwarded(index),
            weight: 1,
        }));
        u32::try_from(first).unwrap_or(u32::MAX)
    }

    #[cfg(test)]
    pub(crate) fn add_plain(&mut self, text: &str, weight: u8) -> u32 {
        self.own.push(Mark { text: text.as_bytes().into(), origin: Origin::Rule(0), weight });
        u32::try_from(self.shared.len() + self.own.len() - 1).unwrap()
    }

    /// Number of marks held for single places.
    pub(crate) fn own_len(&self) -> usize {
        self.own.len()
    }

    pub(crate) fn is_empty_mark(&self, mark: u32) -> bool {
        self.get(mark).is_none_or(|mark| mark.text.is_empty())
    }

    /// Of marks that overlap the heaviest stays.
    pub(crate) fn weight(&self, mark: u32) -> u8 {
        self.get(mark).map_or(0, |mark| mark.weight)
    }
}

/// What a finding weighs. What is stripped weighs nothing, a forwarded value one; what goes by the name of a value less than what
/// knows the value.
pub(crate) fn weight(severity: Severity, generic: bool) -> u8 {
    2 + 2 * severity as u8 + u8::from(!generic)
}
