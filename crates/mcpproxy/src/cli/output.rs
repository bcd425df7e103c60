//! Printing: results on standard output, everything else on standard error, a reader that went away is no fault.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Prints on standard output. A closed pipe ends the program's output quietly.
pub fn print(text: &str) {
    write(text.as_bytes());
}

/// Prints a line on standard output.
pub fn line(text: &str) {
    print(text);
    print("\n");
}

/// Writes bytes to standard output.
pub fn write(bytes: &[u8]) {
    note(io::stdout().lock().write_all(bytes));
}

/// Flushes standard output.
pub fn flush() {
    note(io::stdout().lock().flush());
}

/// Whether something could not be printed. A reader that went away wanted no more, and is no fault.
pub fn failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

static FAILED: AtomicBool = AtomicBool::new(false);

fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
        && !FAILED.swap(true, Ordering::Relaxed)
    {
        tell(&format!("Error: the output could not be written: {error}"));
    }
}

/// Prints a line for a person on standard error.
pub fn tell(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A text without what could move a terminal's cursor, change its colours or hide and turn around what stands there.
pub fn shown(text: &str) -> String {
    text.chars().map(|c| if is_treacherous(c) { '\u{fffd}' } else { c }).collect()
}

fn is_treacherous(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The same on one line and at most `width` characters.
pub fn cell(text: &str, width: usize) -> String {
    let line: String = shown(text).chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    if line.chars().count() <= width {
        return line;
    }
    let mut cut: String = line.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// A table: columns as wide as their widest cell, the last one as long as it is.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let cells = rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count());
            cells.chain([name.len()]).max().unwrap_or(0)
        })
        .collect();
    let head = head.iter().map(|h| (*h).to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&head).chain(rows) {
        let last = row.len().saturating_sub(1);
        for (i, cell) in row.iter().enumerate() {
            text.push_str(cell);
            if i < last {
                text.extend(std::iter::repeat_n(' ', widths[i] - cell.chars().count() + 2));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_control_characters_do_not_reach_the_terminal() {
        let rows = vec![vec!["é".into(), "b".into()], vec!["long".into(), "c".into()]];
        assert_eq!(table(&["A", "B"], &rows), "A     B\né     b\nlong  c\n");
        assert_eq!(cell("a\u{1b}]0;x\u{7}\nb", 20), "a\u{fffd}]0;x\u{fffd} b");
        assert_eq!(cell("abcdef", 4), "abc…");
    }
}
