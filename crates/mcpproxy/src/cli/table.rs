//! Tables for people: as wide as what they are printed on, and coloured only where colours are wanted.

use std::io::IsTerminal;

use super::output;

/// Between two columns.
const GAP: usize = 2;
/// A column is not made narrower than this for another one's sake.
const NARROWEST: usize = 8;
/// What a column that can be cut needs to be worth reading; before it gets less, spare columns are left out.
const COMFORTABLE: usize = 24;

/// What is kept of a cell that is too wide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All of it: ids, numbers, times.
    All,
    /// Its beginning.
    Start,
    /// Its end: paths.
    End,
}

/// One column.
#[derive(Clone, Copy)]
pub struct Column {
    head: &'static str,
    keep: Keep,
    spare: bool,
    right: bool,
}

/// What a cell says beside its text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tint {
    /// Nothing.
    Plain,
    /// As it should be.
    Good,
    /// Waiting, or for a person to look at.
    Attention,
    /// Failed.
    Bad,
}

/// A cell: one line, without what could deceive a terminal.
pub struct Cell {
    text: String,
    tint: Tint,
}

/// A table.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Column {
    /// A column with this head.
    pub const fn new(head: &'static str, keep: Keep) -> Self {
        Self { head, keep, spare: false, right: false }
    }

    /// The same, left out where there is too little room.
    pub const fn spare(self) -> Self {
        Self { spare: true, ..self }
    }

    /// The same with its cells at the right.
    pub const fn right(self) -> Self {
        Self { right: true, ..self }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        let text = output::shown(&text).chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
        Self { text, tint: Tint::Plain }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Cell {
    /// The same in a colour.
    pub fn tinted(self, tint: Tint) -> Self {
        Self { tint, ..self }
    }
}

impl Table {
    /// A table of these columns.
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Prints it as wide as the terminal, or as wide as it is where there is none.
    pub fn print(&self) {
        output::print(&self.text(width(), colours()));
    }

    fn text(&self, width: Option<usize>, colours: bool) -> String {
        let kept = self.fitting_columns(width);
        let widths = self.widths(&kept, width);
        let mut text = String::new();
        let head: Vec<Cell> = self.columns.iter().map(|column| column.head.into()).collect();
        for (number, row) in std::iter::once(&head).chain(&self.rows).enumerate() {
            let last = kept.len().saturating_sub(1);
            for (place, (&at, &room)) in kept.iter().zip(&widths).enumerate() {
                let (Some(column), Some(cell)) = (self.columns.get(at), row.get(at)) else { continue };
                let shown = fitted(&cell.text, room, column.keep);
                let pad = room.saturating_sub(columns_of(&shown));
                let (before, after) = if column.right { (pad, 0) } else { (0, pad) };
                text.extend(std::iter::repeat_n(' ', before));
                text.push_str(&painted(&shown, if number == 0 { Tint::Plain } else { cell.tint }, colours));
                // Nothing stands behind the last column.
                if place < last {
                    text.extend(std::iter::repeat_n(' ', after + GAP));
                }
            }
            text.push('\n');
        }
        text
    }

    /// The columns that are shown: spare ones go, the last first, while the others would be cut too short.
    fn fitting_columns(&self, width: Option<usize>) -> Vec<usize> {
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        let Some(width) = width else { return kept };
        let needed = |at: &usize| match self.columns.get(*at).map(|column| column.keep) {
            Some(Keep::All) | None => self.natural(*at),
            Some(_) => self.natural(*at).min(COMFORTABLE),
        };
        while total(kept.iter().map(needed)) > width {
            let spare = |at: &usize| self.columns.get(*at).is_some_and(|column| column.spare);
            let Some(place) = kept.iter().rposition(spare) else { break };
            kept.remove(place);
        }
        kept
    }

    /// The width of each column: its widest cell, less where the line would be too long, the widest column first.
    fn widths(&self, kept: &[usize], width: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = kept.iter().map(|at| self.natural(*at)).collect();
        let Some(width) = width else { return widths };
        while total(widths.iter().copied()) > width {
            let can_shrink = |place: usize, room: usize| {
                let column = kept.get(place).and_then(|at| self.columns.get(*at));
                room > NARROWEST && column.is_some_and(|column| column.keep != Keep::All)
            };
            let widest =
                widths.iter_mut().enumerate().filter(|(p, w)| can_shrink(*p, **w)).max_by_key(|(_, w)| **w);
            match widest {
                Some((_, room)) => *room -= 1,
                None => break,
            }
        }
        widths
    }

    fn natural(&self, at: usize) -> usize {
        let head = self.columns.get(at).map_or(0, |column| column.head.len());
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| columns_of(&cell.text));
        cells.chain([head]).max().unwrap_or(0)
    }
}

fn total(widths: impl ExactSizeIterator<Item = usize>) -> usize {
    let gaps = widths.len().saturating_sub(1) * GAP;
    widths.sum::<usize>() + gaps
}

/// `COLUMNS`, else the width of the terminal that standard output is.
pub fn width() -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
    let asked = || {
        let out = std::io::stdout();
        let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
        Some(usize::from(size.ws_col))
    };
    told.or_else(asked).filter(|columns| *columns >= 20)
}

/// Only on a terminal that has them, and not where nobody wants them.
fn colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !unwanted && !dumb
}

fn painted(text: &str, tint: Tint, colours: bool) -> String {
    let code = match tint {
        Tint::Plain => return text.to_owned(),
        Tint::Good => 32,
        Tint::Attention => 33,
        Tint::Bad => 31,
    };
    if colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// The text in at most `room` columns of the terminal.
pub fn fitted(text: &str, room: usize, keep: Keep) -> String {
    if columns_of(text) <= room || keep == Keep::All {
        return text.to_owned();
    }
    let mut left = room.saturating_sub(1);
    let mut take = |c: &char| {
        let wide = columns_of_char(*c);
        let fits = wide <= left;
        left = if fits { left - wide } else { 0 };
        fits
    };
    if keep == Keep::Start {
        let start: String = text.chars().take_while(&mut take).collect();
        return format!("{}…", start.trim_end());
    }
    let mut end: Vec<char> = text.chars().rev().take_while(take).collect();
    end.push('…');
    end.iter().rev().collect()
}

/// How many columns of a terminal a text takes.
pub fn columns_of(text: &str) -> usize {
    text.chars().map(columns_of_char).sum()
}

/// East Asian wide characters and most pictures take two, marks that stand on others none.
fn columns_of_char(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{610}'..='\u{61a}' => 0,
        '\u{64b}'..='\u{65f}' | '\u{e31}' | '\u{e34}'..='\u{e3a}' | '\u{e47}'..='\u{e4e}' => 0,
        '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' => 0,
        '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{e0100}'..='\u{e01ef}' => 0,
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{303e}' | '\u{3041}'..='\u{33ff}' => 2,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{a000}'..='\u{a4cf}' => 2,
        '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' => 2,
        '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}' | '\u{1f300}'..='\u{1f64f}' => 2,
        '\u{1f680}'..='\u{1f6ff}' | '\u{1f900}'..='\u{1f9ff}' | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::new("ID", Keep::All),
        Column::new("N", Keep::All).right(),
        Column::new("PATH", Keep::End),
        Column::new("WHY", Keep::Start).spare(),
    ];

    fn table() -> Table {
        let mut table = Table::new(&COLUMNS);
        table.row(vec![
            "01".into(),
            "5".into(),
            "/srv/out/a/long/way/to/the/file.txt".into(),
            "because".into(),
        ]);
        table.row(vec![
            "02".into(),
            "12345".into(),
            "/x".into(),
            Cell::from("a\u{1b}[31m\nb").tinted(Tint::Bad),
        ]);
        table
    }

    #[test]
    fn columns_line_up_and_nothing_deceives_the_terminal() {
        let expected = "ID      N  PATH                                 WHY\n\
                        01      5  /srv/out/a/long/way/to/the/file.txt  because\n\
                        02  12345  /x                                   a\u{fffd}[31m b\n";
        assert_eq!(table().text(None, false), expected);
        assert_eq!(table().text(Some(80), false), expected);
        assert!(table().text(None, true).contains("\u{1b}[31ma\u{fffd}[31m b\u{1b}[0m\n"));
    }

    #[test]
    fn what_does_not_fit_is_cut_where_it_says_least_and_spare_columns_go_first() {
        let expected = "ID      N  PATH                       WHY\n\
                        01      5  …long/way/to/the/file.txt  because\n\
                        02  12345  /x                         a\u{fffd}[31m b\n";
        assert_eq!(table().text(Some(46), false), expected);
        let narrow = table().text(Some(30), false);
        assert_eq!(narrow.lines().next(), Some("ID      N  PATH"));
        assert_eq!(narrow.lines().nth(1), Some("01      5  …ay/to/the/file.txt"));
        for width in 20..60 {
            let text = table().text(Some(width), false);
            assert!(text.lines().all(|line| columns_of(line) <= width), "{width}:\n{text}");
        }
    }

    #[test]
    fn wide_characters_count_for_two_and_marks_for_none() {
        assert_eq!((columns_of("日本"), columns_of("e\u{301}"), columns_of("aé")), (4, 1, 2));
        assert_eq!(fitted("日本語です", 6, Keep::Start), "日本…");
        assert_eq!(fitted("日本語です", 6, Keep::End), "…です");
        assert_eq!(fitted("abc", 3, Keep::Start), "abc");
        assert_eq!(fitted("abcd", 0, Keep::Start), "…");
    }
}
