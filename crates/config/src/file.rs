//! The file as it is written: its text, and its JSON with the order of the keys kept.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::problem::{Findings, Problem, element, member, quoted};

/// The largest file that is read: far more than ten thousand servers need.
pub(crate) const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A configuration file as it is written.
#[derive(Clone, Default)]
pub struct Document {
    text: String,
    root: Map<String, Value>,
}

impl Document {
    /// Reads the text of a file. Nothing but white space is an empty object.
    ///
    /// # Errors
    /// A syntax error with line and column, a top level that is no object, or every key that stands twice.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let json = text.strip_prefix('\u{feff}').unwrap_or(text);
        if json.trim().is_empty() {
            return Ok(Self { text: text.to_owned(), root: Map::new() });
        }
        let twice = RefCell::new(Findings::default());
        let mut reader = serde_json::Deserializer::from_str(json);
        let value = Strict { at: &Step::Root, twice: &twice }.deserialize(&mut reader);
        let value =
            value.and_then(|value| reader.end().map(|()| value)).map_err(|e| vec![syntax_problem(&e)])?;
        twice.into_inner().into_result()?;
        match value {
            Value::Object(root) => Ok(Self { text: text.to_owned(), root }),
            other => Err(vec![Problem::new(
                "$",
                format!("the file holds {}, not an object", kind_of(&other)),
                "write one object: {\"mcpServers\": [ … ]}",
            )]),
        }
    }

    /// The text, byte for byte.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the file holds nothing but white space: an emptied file, or a first run.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.text.trim_start_matches('\u{feff}').trim().is_empty()
    }

    /// The top level, in the order of the file.
    #[must_use]
    pub fn root(&self) -> &Map<String, Value> {
        &self.root
    }

    /// The value at a path such as `logging.level`, if the file has it; `null` is a value here.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        let mut names = path.split('.');
        let first = self.root.get(names.next()?)?;
        names.try_fold(first, |value, name| value.get(name))
    }

    /// Whether the file itself gives a value at `path` (`null` is none).
    #[must_use]
    pub fn is_explicit(&self, path: &str) -> bool {
        self.get(path).is_some_and(|value| !value.is_null())
    }
}

impl fmt::Debug for Document {
    /// Names only: values may be secrets.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Document")
            .field("bytes", &self.text.len())
            .field("keys", &self.root.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// The text of the file, or `None` if there is none. What was opened is judged again, so that nothing changes hands
/// between the judgement and the reading.
pub(crate) fn read(path: &Path, extra_owner: Option<u32>) -> Result<Option<String>, Problem> {
    let unreadable = |error: &io::Error| {
        Problem::new(
            path.display().to_string(),
            format!("cannot be read ({error})"),
            "make it readable for this user",
        )
    };
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(&error)),
    };
    let about = file.metadata().map_err(|error| unreadable(&error))?;
    if !about.is_file() {
        let fix = "name a regular file with --config";
        return Err(Problem::new(path.display().to_string(), "is not a regular file", fix));
    }
    crate::owner::judge_open_file(path, &file, extra_owner)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES) {
        let fix = "name the right file with --config, or make this one smaller";
        return Err(Problem::new(
            path.display().to_string(),
            format!("is larger than {MAX_BYTES} bytes"),
            fix,
        ));
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Problem::new(
            path.display().to_string(),
            format!("is not valid UTF-8 at byte {at}"),
            "save it as UTF-8",
        )
    })
}

/// Opens without waiting, so that a FIFO does not hang the start.
#[cfg(unix)]
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_with(path, rustix::fs::OFlags::empty())
}

/// The same, and a link at this very place is an error.
#[cfg(unix)]
pub(crate) fn open_no_follow(path: &Path) -> io::Result<File> {
    open_with(path, rustix::fs::OFlags::NOFOLLOW)
}

#[cfg(unix)]
fn open_with(path: &Path, more: rustix::fs::OFlags) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | more;
    Ok(rustix::fs::open(path, flags, Mode::empty()).map(File::from)?)
}

#[cfg(not(unix))]
pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(not(unix))]
pub(crate) fn open_no_follow(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// What a value is, for messages.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn syntax_problem(error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    Problem::new(
        "$",
        format!("is not valid JSON at line {line}, column {column}: {what}"),
        "correct it there (JSON has no comments and no comma after the last element)",
    )
}

/// A place in the document, as a chain to its parents: it is only written out when something is wrong there.
enum Step<'p> {
    Root,
    Key(&'p Step<'p>, &'p str),
    Index(&'p Step<'p>, usize),
}

impl Step<'_> {
    fn path(&self) -> String {
        match self {
            Self::Root => "$".to_owned(),
            Self::Key(parent, key) => member(&parent.path(), key),
            Self::Index(parent, index) => element(&parent.path(), *index),
        }
    }
}

/// Reads a value and notes keys that stand twice, which serde_json alone would silently merge.
struct Strict<'p> {
    at: &'p Step<'p>,
    twice: &'p RefCell<Findings>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let at = Step::Index(self.at, list.len());
            match access.next_element_seed(Strict { at: &at, twice: self.twice })? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        let mut noted = HashSet::new();
        while let Some(key) = access.next_key::<String>()? {
            let at = Step::Key(self.at, &key);
            let value = access.next_value_seed(Strict { at: &at, twice: self.twice })?;
            if members.contains_key(&key) && noted.insert(key.clone()) {
                let message = format!("the key {} stands here more than once", quoted(&key));
                let fix = "keep one of them";
                self.twice.borrow_mut().problem(Problem::new(at.path(), message, fix));
            }
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_keeps_order_and_text() {
        let text = "{\"b\": 1, \"a\": {\"z\": 1e3, \"y\": null}, \"x_note\": 1}";
        let document = Document::parse(text).unwrap();
        assert_eq!(document.text(), text);
        assert_eq!(document.root().keys().collect::<Vec<_>>(), ["b", "a", "x_note"]);
        assert!(document.is_explicit("a.z"));
        assert!(!document.is_explicit("a.y") && document.get("a.y").is_some());
        assert!(!document.is_explicit("a.q") && !document.is_explicit("b.c"));
    }

    #[test]
    fn syntax_errors_say_where() {
        let cases = [
            ("{\n  \"a\": 1,\n}", "line 3, column 1"),
            ("{\n // no\n}", "line 2, column 2"),
            ("{\"tool_output_roots\":[\"/tmp/t/root\",", "line 1, column 36"),
            ("{} garbage", "line 1, column 4"),
            ("{\"a\":1e999}", "line 1, column 10"),
        ];
        for (text, place) in cases {
            let problems = Document::parse(text).unwrap_err();
            assert_eq!(problems.len(), 1);
            assert!(problems[0].message.contains(place), "{text}: {}", problems[0]);
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_crash() {
        let text = format!("{{\"a\":{}", "[".repeat(1_000_000));
        assert!(Document::parse(&text).is_err());
    }

    #[test]
    fn only_an_object_is_a_configuration() {
        for text in ["[]", "1", "\"x\"", "null"] {
            assert!(Document::parse(text).unwrap_err()[0].message.contains("not an object"), "{text}");
        }
        for text in ["", " \n", "\u{feff}", "\u{feff}{}", "{}"] {
            assert!(Document::parse(text).unwrap().root().is_empty(), "{text:?}");
        }
    }

    #[test]
    fn every_key_that_stands_twice_is_named_once() {
        let text = r#"{"a":1,"b":[{"c":1,"c":2,"c":3}],"a":2,"mcpServers":{"x":{},"x":{}}}"#;
        let paths: Vec<_> = Document::parse(text).unwrap_err().into_iter().map(|p| p.path).collect();
        assert_eq!(paths, ["$.b[0].c", "$.a", "$.mcpServers.x"]);
    }

    #[test]
    fn debug_shows_no_value() {
        let secret = ["sec", "ret"].concat();
        let document = Document::parse(&format!("{{\"api_key\":\"{secret}\"}}")).unwrap();
        assert!(!format!("{document:?}").contains(&secret));
    }
}
