//! Printing: results on standard output, everything else on standard error, a reader that went away is no fault.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::{Form, yaml};

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

/// Prints a value in a form for programs. `false`: a person is to read it, and nothing was printed.
pub fn value(form: Form, value: &Value) -> bool {
    match form {
        Form::Table => return false,
        Form::Json => line(&value.to_string()),
        Form::Yaml => print(&yaml::of(&value.to_string())),
    }
    true
}

/// Prints a name and its value, for a person. A line of the value does not look like a line of ours.
pub fn pair(name: &str, value: &str) {
    let value = shown(value).replace('\n', &format!("\n{:23}", ""));
    line(&format!("{name:<22} {value}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_deceive_a_terminal_or_its_reader_is_replaced() {
        assert_eq!(shown("a\u{1b}]0;x\u{7}\nb\u{202e}c"), "a\u{fffd}]0;x\u{fffd}\nb\u{fffd}c");
    }
}
