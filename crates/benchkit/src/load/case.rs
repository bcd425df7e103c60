//! What is called: the requests of a case, and what their replies must hold.

use std::path::PathBuf;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Options;
use super::check::{self, Seen};
use crate::payload;

/// The cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// A small text there and back
    Echo,
    /// A large text back
    Big,
    /// A large text into a file, an envelope back (with --via and --save-in)
    Save,
    /// `tools/list`
    List,
    /// `retrieve_tools` of the gateway
    Search,
}

/// One case, ready to make requests.
pub struct Case {
    kind: Kind,
    bytes: usize,
    /// `"method": …, "params": …` of every call, where calls do not differ.
    body: String,
    tool: String,
    save_in: PathBuf,
    sha256: String,
    text: String,
}

impl Case {
    /// Errors name the option that is missing.
    pub fn new(options: &Options) -> Result<Self, String> {
        let kind = options.kind()?;
        let text = if kind == Kind::Echo { "x".repeat(options.bytes.min(1 << 20)) } else { String::new() };
        let own = match kind {
            Kind::Echo => "echo",
            Kind::Big | Kind::Save => "big",
            Kind::List | Kind::Search => "retrieve_tools",
        };
        let tool = match &options.via {
            Some(server) => format!("{server}:{own}"),
            None => options.tool.clone().unwrap_or_else(|| own.to_owned()),
        };
        let arguments =
            if kind == Kind::Echo { json!({"text": text}) } else { json!({"bytes": options.bytes}) };
        let body = match (kind, &options.via) {
            (Kind::List, _) => r#""method":"tools/list","params":{}"#.to_owned(),
            (_, Some(_)) => call("call_tool_read", &json!({"name": tool, "args": arguments})),
            (_, None) => call(&tool, &arguments),
        };
        let sha256 = if kind == Kind::Save { sha256_of(options.bytes) } else { String::new() };
        let save_in = options.save_in.clone().unwrap_or_default();
        Ok(Self { kind, bytes: options.bytes, body, tool, save_in, sha256, text })
    }

    /// The request with this number.
    pub fn request(&self, id: u64) -> Bytes {
        let own = match self.kind {
            Kind::Save => {
                let path = self.file(id);
                let arguments =
                    json!({"name": self.tool, "args": {"bytes": self.bytes}, "save_to_file": path});
                Some(call("call_tool_read", &arguments))
            }
            Kind::Search => {
                let count = payload::QUERIES.len();
                let query = usize::try_from(id).ok().and_then(|id| payload::QUERIES.get(id % count));
                Some(call(&self.tool, &json!({"query": query})))
            }
            _ => None,
        };
        format!(r#"{{"jsonrpc":"2.0","id":{id},{}}}"#, own.as_ref().unwrap_or(&self.body)).into()
    }

    /// Whether the reply is the one that it should be, to the last byte.
    pub fn check(&self, id: u64, message: &[u8]) -> Result<Seen, String> {
        match self.kind {
            Kind::Echo => check::texts(id, message, |text| text == self.text),
            Kind::Big => check::texts(id, message, |text| payload::is_text(text.as_bytes(), self.bytes)),
            Kind::Save => check::saved(id, message, &self.file(id), self.bytes, &self.sha256),
            Kind::List => check::listed(id, message),
            Kind::Search => check::found(id, message),
        }
    }

    fn file(&self, id: u64) -> PathBuf {
        self.save_in.join(format!("answer-{}-{id}.log", std::process::id()))
    }
}

impl Options {
    fn kind(&self) -> Result<Kind, String> {
        if self.case == Kind::Save && (self.via.is_none() || self.save_in.is_none()) {
            return Err("--case save needs --via and --save-in".to_owned());
        }
        Ok(self.case)
    }
}

fn call(tool: &str, arguments: &Value) -> String {
    format!(r#""method":"tools/call","params":{}"#, json!({"name": tool, "arguments": arguments}))
}

fn sha256_of(bytes: usize) -> String {
    let mut hash = Sha256::new();
    payload::pieces(bytes).for_each(|piece| hash.update(&piece));
    check::hex(&hash.finalize())
}
