//! Is a reply what it should be? All of this happens after the call's clock has stopped.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// Names of a listing that are reported.
const NAMES: usize = 16;

/// What a sound reply held.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub reply_bytes: usize,
    pub tools: usize,
    pub names: Vec<String>,
}

#[derive(Deserialize)]
struct Message<'a> {
    id: u64,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallResult {
    #[serde(default)]
    content: Vec<Block>,
    #[serde(default, rename = "isError")]
    is_error: bool,
}

#[derive(Deserialize)]
struct Block {
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
struct Listing {
    tools: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
}

#[derive(Deserialize)]
struct Envelope {
    bytes: usize,
    sha256: String,
}

/// The result of the reply with this id.
pub fn is_result(id: u64, message: &[u8]) -> Result<&RawValue, String> {
    let parsed: Message<'_> =
        serde_json::from_slice(message).map_err(|e| format!("not a reply: {e}: {}", start(message)))?;
    if parsed.id != id {
        return Err("a reply with another id".to_owned());
    }
    match (parsed.result, parsed.error) {
        (Some(result), None) => Ok(result),
        (_, Some(error)) => Err(format!("an error: {}", start(error.get().as_bytes()))),
        (None, None) => Err("neither a result nor an error".to_owned()),
    }
}

fn blocks(id: u64, message: &[u8]) -> Result<Vec<Block>, String> {
    let result: CallResult = serde_json::from_str(is_result(id, message)?.get())
        .map_err(|e| format!("not a tool's result: {e}"))?;
    let said = || result.content.first().map_or("", |block| &block.text).as_bytes();
    if result.is_error { Err(format!("the tool failed: {}", start(said()))) } else { Ok(result.content) }
}

/// One text block that is right.
pub fn texts(id: u64, message: &[u8], right: impl Fn(&str) -> bool) -> Result<Seen, String> {
    match blocks(id, message)?.as_slice() {
        [only] if right(&only.text) => Ok(seen(message)),
        [only] => Err(format!("another text, {} bytes: {}", only.text.len(), start(only.text.as_bytes()))),
        other => Err(format!("{} blocks instead of one", other.len())),
    }
}

/// The envelope and the file behind it; the file is removed.
pub fn saved(id: u64, message: &[u8], path: &Path, bytes: usize, sha256: &str) -> Result<Seen, String> {
    let blocks = blocks(id, message)?;
    let text = blocks.first().map_or("", |block| &block.text);
    let envelope: Envelope =
        serde_json::from_str(text).map_err(|e| format!("no envelope: {e}: {}", start(text.as_bytes())))?;
    if (envelope.bytes, &*envelope.sha256) != (bytes, sha256) {
        return Err(format!("an envelope with {} bytes and sha256 {}", envelope.bytes, envelope.sha256));
    }
    let in_file = hash_of_file(path).map_err(|e| format!("the saved file: {e}"))?;
    std::fs::remove_file(path).map_err(|e| format!("the saved file: {e}"))?;
    if in_file != (bytes as u64, sha256.to_owned()) {
        return Err(format!("a file with {} bytes and sha256 {}", in_file.0, in_file.1));
    }
    Ok(seen(message))
}

fn hash_of_file(path: &Path) -> std::io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let (mut hash, mut buffer, mut length) = (Sha256::new(), vec![0; 1 << 20], 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((length, hex(&hash.finalize())));
        }
        length += read as u64;
        hash.update(buffer.get(..read).unwrap_or_default());
    }
}

/// A listing with at least one tool.
pub fn listed(id: u64, message: &[u8]) -> Result<Seen, String> {
    tools(is_result(id, message)?.get(), message)
}

/// The answer of `retrieve_tools`, with at least one tool.
pub fn found(id: u64, message: &[u8]) -> Result<Seen, String> {
    let blocks = blocks(id, message)?;
    tools(blocks.first().map_or("", |block| &block.text), message)
}

fn tools(json: &str, message: &[u8]) -> Result<Seen, String> {
    let listing: Listing =
        serde_json::from_str(json).map_err(|e| format!("no listing: {e}: {}", start(json.as_bytes())))?;
    if listing.tools.is_empty() {
        return Err("no tool".to_owned());
    }
    let count = listing.tools.len();
    let names = listing.tools.into_iter().take(NAMES).map(|tool| tool.name).collect();
    Ok(Seen { tools: count, names, ..seen(message) })
}

fn seen(message: &[u8]) -> Seen {
    Seen { reply_bytes: message.len(), ..Seen::default() }
}

/// Enough of it to know it by.
fn start(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..200).unwrap_or(bytes)).into_owned()
}

/// Small hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &[u8] = br#"{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"hi"}]}}"#;

    #[test]
    fn only_the_right_text_with_the_right_id_passes() {
        assert_eq!(texts(4, SOUND, |text| text == "hi").unwrap().reply_bytes, SOUND.len());
        assert!(texts(5, SOUND, |_| true).unwrap_err().contains("another id"));
        assert!(texts(4, SOUND, |text| text == "ho").unwrap_err().contains("another text, 2 bytes"));
    }

    #[test]
    fn errors_of_the_tool_and_of_the_protocol_do_not_pass() {
        let failed = br#"{"id":4,"result":{"isError":true,"content":[{"type":"text","text":"no"}]}}"#;
        assert_eq!(texts(4, failed, |_| true).unwrap_err(), "the tool failed: no");
        let error = br#"{"id":4,"error":{"code":-1,"message":"m"}}"#;
        assert!(texts(4, error, |_| true).unwrap_err().starts_with("an error: "));
        assert!(texts(4, b"{", |_| true).unwrap_err().starts_with("not a reply"));
        assert_eq!(listed(4, br#"{"id":4,"result":{"tools":[]}}"#).unwrap_err(), "no tool");
    }

    #[test]
    fn an_envelope_is_not_believed_without_its_file() {
        let path = std::env::temp_dir().join(format!("benchkit-{}", std::process::id()));
        let sum = hex(&Sha256::digest(b"abc"));
        let text = format!(r#"{{"bytes":3,"sha256":"{sum}"}}"#);
        let message = serde_json::json!({"id": 1, "result": {"content": [{"text": text}]}}).to_string();
        assert!(saved(1, message.as_bytes(), &path, 3, &sum).unwrap_err().starts_with("the saved file"));
        std::fs::write(&path, b"abd").unwrap();
        assert!(saved(1, message.as_bytes(), &path, 3, &sum).unwrap_err().starts_with("a file with 3 bytes"));
        std::fs::write(&path, b"abc").unwrap();
        saved(1, message.as_bytes(), &path, 3, &sum).unwrap();
        assert!(!path.exists());
    }
}
