//! Short forms of an answer: the preview of a saved one, and what an error says in a record.

use std::io::Read;

use crate::clean::Redacted;
use crate::rendition::TextReader;
use crate::source::CHUNK;

pub mod toon;

const NO_TEXT: &str = "the tool reported an error and gave no text";

pub(crate) fn preview(redacted: &Redacted, max_chars: usize) -> (String, bool) {
    let head = Head::read(redacted, max_chars, |text| text.chars().count());
    match head.text.char_indices().nth(max_chars) {
        Some((end, _)) => (head.text.get(..end).unwrap_or_default().to_owned(), true),
        None => (head.text, head.broken),
    }
}

pub(crate) fn error_text(redacted: &Redacted, max_bytes: usize) -> String {
    let Head { mut text, broken } = Head::read(redacted, max_bytes, str::len);
    if text.is_empty() {
        return NO_TEXT.to_owned();
    }
    let cut = text.len() > max_bytes;
    if cut {
        text.truncate(text.floor_char_boundary(max_bytes));
    }
    if cut || broken {
        text.push('…');
    }
    text
}

/// The start of the text of an answer.
struct Head {
    text: String,
    /// Reading failed here.
    broken: bool,
}

impl Head {
    /// Reads until the text measures more than `limit`, or to its end.
    fn read(redacted: &Redacted, limit: usize, measure: fn(&str) -> usize) -> Head {
        let mut head = Head { text: String::new(), broken: false };
        let chunk = limit.clamp(64, CHUNK);
        let Some(mut reader) = TextReader::with_chunk(redacted, chunk) else { return head };
        let (mut bytes, mut buf, mut measured) = (Vec::new(), vec![0; chunk], 0);
        while measured <= limit {
            match reader.read(&mut buf) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(buf.get(..count).unwrap_or_default()),
                Err(_) => {
                    head.broken = true;
                    break;
                }
            }
            let new = whole_characters(&mut bytes);
            measured += measure(&new);
            head.text.push_str(&new);
        }
        head
    }
}

/// Takes the complete characters from the front of `bytes` and leaves one that is cut.
fn whole_characters(bytes: &mut Vec<u8>) -> String {
    let good = match std::str::from_utf8(bytes) {
        Ok(text) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    let rest = bytes.split_off(good);
    String::from_utf8(std::mem::replace(bytes, rest)).unwrap_or_default()
}
