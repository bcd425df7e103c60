//! What the scripted upstream does: exact bytes, odd shapes and faults, told by a file that a test may change any time.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::thread::sleep;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The whole script of one upstream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Script {
    /// Raw JSON of each listed tool.
    pub tools: Vec<String>,
    /// What a call does, by tool name; `*` for all others.
    pub actions: BTreeMap<String, Action>,
    /// The `id` stands last in each message, as npm servers write it, and not first.
    pub id_last: bool,
    /// Tools per page of `tools/list`; 0 lists all at once.
    pub page: usize,
    /// Lines that are printed before each answer.
    pub noise: Vec<String>,
    /// Milliseconds to wait before `initialize` is answered.
    pub slow_start_ms: u64,
    /// A grandchild that sleeps is started, in a session of its own, and its pid written to `grandchild`.
    pub grandchild: bool,
    /// Never answers `initialize`.
    pub mute: bool,
}

/// What happens when a tool is called.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Action {
    /// This raw text is the `result`.
    Result(String),
    /// This raw text is the `error`.
    Error(String),
    /// These bytes are the whole message, `@ID@` replaced by the id.
    Message(String),
    /// A result with one text block of so many bytes (see [`generated`]).
    Generate(u64),
    /// So many bytes without a line break, then nothing more.
    Endless(u64),
    /// No answer ever.
    Hang,
    /// The process ends with this code.
    Exit(i32),
    /// Progress notifications, so many, so many milliseconds apart, then the action.
    Progress(u32, u64, Box<Action>),
    /// Waits so many milliseconds, then the action.
    After(u64, Box<Action>),
    /// Half of the message, then the process ends.
    Half(u64),
}

impl Script {
    /// An upstream with one tool `tool` that always gives this raw `result`.
    pub fn result(raw: &str) -> Self {
        Self::action(Action::Result(raw.to_owned()))
    }

    /// An upstream with one tool `tool` that gives one text block.
    pub fn text(text: &str) -> Self {
        Self::result(&text_result(text))
    }

    /// An upstream with one tool `tool` that does this.
    pub fn action(action: Action) -> Self {
        Self {
            tools: vec![tool("tool")],
            actions: BTreeMap::from([("*".to_owned(), action)]),
            id_last: false,
            page: 0,
            noise: Vec::new(),
            slow_start_ms: 0,
            grandchild: false,
            mute: false,
        }
    }

    /// The same with the `id` last.
    #[must_use]
    pub fn id_last(mut self, last: bool) -> Self {
        self.id_last = last;
        self
    }

    /// The same with this list of raw tools.
    #[must_use]
    pub fn tools(mut self, tools: Vec<String>) -> Self {
        self.tools = tools;
        self
    }

    /// The same with one tool that has its own action.
    #[must_use]
    pub fn on(mut self, name: &str, action: Action) -> Self {
        self.actions.insert(name.to_owned(), action);
        self
    }

    fn for_tool(&self, name: &str) -> Action {
        let found = self.actions.get(name).or_else(|| self.actions.get("*"));
        found.cloned().unwrap_or(Action::Error(r#"{"code":-32602,"message":"Unknown tool"}"#.into()))
    }
}

/// A listed tool that takes any arguments and says that it only reads.
pub fn tool(name: &str) -> String {
    annotated(name, r#"{"readOnlyHint":true,"openWorldHint":false}"#)
}

/// A listed tool with these raw annotations.
pub fn annotated(name: &str, annotations: &str) -> String {
    format!(
        r#"{{"name":{},"description":"A scripted tool","inputSchema":{{"type":"object"}},"annotations":{annotations}}}"#,
        serde_json::to_string(name).unwrap()
    )
}

/// A result with one text block.
pub fn text_result(text: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, serde_json::to_string(text).unwrap())
}

/// The text of [`Action::Generate`]: numbered lines, plain ASCII, exactly `bytes` long.
pub fn generated(bytes: u64, mut sink: impl FnMut(&[u8])) {
    let mut left = bytes;
    let mut number: u64 = 0;
    while left > 0 {
        let line = format!("line {number:012} of a scripted answer, plain and quoted 'so'\n");
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(line.len());
        sink(&line.as_bytes()[..take]);
        left -= take as u64;
        number += 1;
    }
}

/// One agent's message, as far as the script needs it.
pub struct Asked {
    /// Raw id; none for a notification.
    pub id: Option<String>,
    /// The method.
    pub method: String,
    /// Raw parameters.
    pub params: String,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct CallParams {
    name: Option<String>,
    cursor: Option<String>,
    #[serde(rename = "protocolVersion")]
    protocol: Option<String>,
    #[serde(rename = "_meta")]
    meta: Option<serde_json::Value>,
}

impl Asked {
    /// Reads one message.
    pub fn read(raw: &str) -> Option<Self> {
        let message: Message<'_> = serde_json::from_str(raw).ok()?;
        Some(Self {
            id: message.id.map(|id| id.get().to_owned()),
            method: message.method?,
            params: message.params.map_or("{}", RawValue::get).to_owned(),
        })
    }

    fn parsed(&self) -> CallParams {
        serde_json::from_str(&self.params).unwrap_or_default()
    }

    /// The tool that is called.
    pub fn tool(&self) -> String {
        self.parsed().name.unwrap_or_default()
    }
}

/// Where an answer goes, message by message.
pub trait Sink {
    /// The next bytes of the message.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// The message is complete.
    fn end(&mut self) -> io::Result<()>;
    /// The process (or connection) is to end now.
    fn die(&mut self, code: i32);
}

/// Answers one message by the script. Calls are counted by the transports.
pub fn respond(script: &Script, asked: &Asked, sink: &mut impl Sink) -> io::Result<()> {
    let Some(id) = asked.id.as_deref() else { return Ok(()) };
    match asked.method.as_str() {
        "initialize" if script.mute => Ok(()),
        "initialize" => {
            sleep(Duration::from_millis(script.slow_start_ms));
            let version = asked.parsed().protocol.unwrap_or_else(|| "2025-11-25".into());
            let result = format!(
                r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"scripted","version":"1"}}}}"#
            );
            answer(script, id, "result", result.as_bytes(), sink)
        }
        "ping" => answer(script, id, "result", b"{}", sink),
        "tools/list" => answer(script, id, "result", page(script, asked).as_bytes(), sink),
        "tools/call" => act(script, &script.for_tool(&asked.tool()), asked, id, sink),
        _ => answer(script, id, "error", br#"{"code":-32601,"message":"Method not found"}"#, sink),
    }
}

fn page(script: &Script, asked: &Asked) -> String {
    let from: usize = asked.parsed().cursor.and_then(|c| c.parse().ok()).unwrap_or(0);
    let size = if script.page == 0 { script.tools.len() } else { script.page };
    let to = (from + size).min(script.tools.len());
    let next = if to < script.tools.len() { format!(r#","nextCursor":"{to}""#) } else { String::new() };
    format!(r#"{{"tools":[{}]{next}}}"#, script.tools[from..to].join(","))
}

fn act(script: &Script, action: &Action, asked: &Asked, id: &str, sink: &mut impl Sink) -> io::Result<()> {
    match action {
        Action::Result(raw) => answer(script, id, "result", raw.as_bytes(), sink),
        Action::Error(raw) => answer(script, id, "error", raw.as_bytes(), sink),
        Action::Message(raw) => {
            sink.write(raw.replace("@ID@", id).as_bytes())?;
            sink.end()
        }
        Action::Generate(bytes) => generate(script, id, *bytes, sink),
        Action::Endless(bytes) => {
            let block = [b'x'; 65536];
            let mut left = *bytes;
            sink.write(br#"{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":""#)?;
            while left > 0 {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
                sink.write(&block[..take])?;
                left -= take as u64;
            }
            Ok(())
        }
        Action::Hang => Ok(()),
        Action::Exit(code) => {
            sink.die(*code);
            Ok(())
        }
        Action::Progress(steps, every, then) => {
            if let Some(token) = asked.parsed().meta.and_then(|m| m.get("progressToken").cloned()) {
                for step in 1..=*steps {
                    sleep(Duration::from_millis(*every));
                    let note = format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{step},"total":{steps},"message":"step {step}"}}}}"#
                    );
                    sink.write(note.as_bytes())?;
                    sink.end()?;
                }
            }
            act(script, then, asked, id, sink)
        }
        Action::After(wait, then) => {
            sleep(Duration::from_millis(*wait));
            act(script, then, asked, id, sink)
        }
        Action::Half(bytes) => {
            sink.write(br#"{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":""#)?;
            let mut failed = None;
            generated(*bytes, |piece| failed = failed.take().or(sink.write(piece.trim_ascii_end()).err()));
            sink.die(1);
            failed.map_or(Ok(()), Err)
        }
    }
}

fn answer(script: &Script, id: &str, member: &str, raw: &[u8], sink: &mut impl Sink) -> io::Result<()> {
    head(script, id, member, sink)?;
    sink.write(raw)?;
    tail(script, id, sink)
}

fn head(script: &Script, id: &str, member: &str, sink: &mut impl Sink) -> io::Result<()> {
    for line in &script.noise {
        sink.write(line.as_bytes())?;
        sink.end()?;
    }
    let id = if script.id_last { String::new() } else { format!(r#","id":{id}"#) };
    sink.write(format!(r#"{{"jsonrpc":"2.0"{id},"{member}":"#).as_bytes())
}

fn tail(script: &Script, id: &str, sink: &mut impl Sink) -> io::Result<()> {
    let id = if script.id_last { format!(r#","id":{id}"#) } else { String::new() };
    sink.write(format!("{id}}}").as_bytes())?;
    sink.end()
}

fn generate(script: &Script, id: &str, bytes: u64, sink: &mut impl Sink) -> io::Result<()> {
    head(script, id, "result", sink)?;
    sink.write(br#"{"content":[{"type":"text","text":""#)?;
    let mut buffer: Vec<u8> = Vec::with_capacity(1 << 17);
    let mut failed = None;
    generated(bytes, |piece| {
        match piece.strip_suffix(b"\n") {
            Some(line) => {
                buffer.extend_from_slice(line);
                buffer.extend_from_slice(b"\\n");
            }
            None => buffer.extend_from_slice(piece),
        }
        if buffer.len() >= 1 << 16 && failed.is_none() {
            failed = sink.write(&buffer).err();
            buffer.clear();
        }
    });
    failed.map_or(Ok(()), Err)?;
    sink.write(&buffer)?;
    sink.write(br#""}]}"#)?;
    tail(script, id, sink)
}

/// A sink over a stream that takes one message a line.
pub struct Lines<W: Write>(pub W);

impl<W: Write> Sink for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn end(&mut self) -> io::Result<()> {
        self.0.write_all(b"\n")?;
        self.0.flush()
    }

    fn die(&mut self, code: i32) {
        let _ = self.0.flush();
        std::process::exit(code);
    }
}
