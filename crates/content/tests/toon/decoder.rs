//! A strict decoder of TOON, written from the specification for these tests alone.

use super::value::Json;

type Answer<T> = Result<T, String>;

pub fn decode(toon: &str) -> Answer<Json> {
    decode_indented(toon, 2)
}

pub fn decode_indented(toon: &str, indent: usize) -> Answer<Json> {
    let mut lines = Vec::new();
    for line in toon.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let text = line.trim_start_matches(' ');
        if text.starts_with('#') || text.trim_matches(' ').is_empty() {
            continue;
        }
        let spaces = line.len() - text.len();
        if spaces % indent != 0 || text.starts_with('\t') {
            return Err(format!("bad indentation: {line:?}"));
        }
        lines.push(Line { depth: spaces / indent, text });
    }
    let mut decoder = Decoder { lines, at: 0 };
    let root = decoder.root()?;
    match decoder.lines.get(decoder.at) {
        Some(line) => Err(format!("left over: {:?}", line.text)),
        None => Ok(root),
    }
}

#[derive(Clone, Copy)]
struct Line<'a> {
    depth: usize,
    text: &'a str,
}

struct Decoder<'a> {
    lines: Vec<Line<'a>>,
    at: usize,
}

struct Header<'a> {
    key: Option<String>,
    len: usize,
    is_keyed: bool,
    delimiter: char,
    columns: Option<Vec<Column>>,
    rest: &'a str,
}

struct Column {
    name: String,
    inner: Option<Vec<Column>>,
}

impl<'a> Decoder<'a> {
    fn root(&mut self) -> Answer<Json> {
        let Some(&first) = self.lines.first() else { return Ok(Json::Object(Vec::new())) };
        if let Some(header) = header(first.text)?
            && header.key.is_none()
        {
            self.at = 1;
            return self.body(&header, 0);
        }
        if self.lines.len() == 1 && first.depth == 0 {
            if first.text == "[]" {
                self.at = 1;
                return Ok(Json::Array(Vec::new()));
            }
            if find(first.text, ':').is_none() {
                self.at = 1;
                return primitive(first.text);
            }
        }
        self.object(0, Vec::new())
    }

    fn next_at(&self, depth: usize) -> Option<Line<'a>> {
        self.lines.get(self.at).copied().filter(|line| line.depth == depth)
    }

    fn object(&mut self, depth: usize, mut fields: Vec<(String, Json)>) -> Answer<Json> {
        while let Some(line) = self.next_at(depth) {
            self.at += 1;
            let (key, value) = self.field(line.text, depth)?;
            if fields.iter().any(|(other, _)| *other == key) {
                return Err(format!("twice: {key:?}"));
            }
            fields.push((key, value));
        }
        Ok(Json::Object(fields))
    }

    /// A field that stands at `depth` and whose first line is read.
    fn field(&mut self, text: &str, depth: usize) -> Answer<(String, Json)> {
        if let Some(mut header) = header(text)? {
            let key = header.key.take().ok_or("an array without a key")?;
            return Ok((key, self.body(&header, depth)?));
        }
        let colon = find(text, ':').ok_or_else(|| format!("no colon: {text:?}"))?;
        let key = key(text[..colon].trim_matches(' '))?;
        let value = match text[colon + 1..].trim_matches(' ') {
            "" => self.object(depth + 1, Vec::new())?,
            "[]" => Json::Array(Vec::new()),
            value => primitive(value)?,
        };
        Ok((key, value))
    }

    /// What a header announces that stands at `depth`.
    fn body(&mut self, header: &Header<'_>, depth: usize) -> Answer<Json> {
        let rest = header.rest.trim_matches(' ');
        let mut elements = Vec::new();
        match &header.columns {
            Some(_) if !rest.is_empty() => return Err(format!("after a table's header: {rest:?}")),
            Some(columns) if header.is_keyed => return self.entries(columns, header, depth + 1),
            Some(columns) => {
                while elements.len() < header.len {
                    let line = self.next_at(depth + 1).ok_or("too few rows")?;
                    self.at += 1;
                    elements.push(row(line.text, columns, header.delimiter)?);
                }
            }
            None if !rest.is_empty() => {
                for token in split(rest, header.delimiter) {
                    elements.push(primitive(token)?);
                }
            }
            None => {
                while let Some(line) = self.next_at(depth + 1) {
                    self.at += 1;
                    elements.push(self.item(line.text, depth + 1)?);
                }
            }
        }
        if elements.len() != header.len {
            return Err(format!("{} elements, not {}", elements.len(), header.len));
        }
        Ok(Json::Array(elements))
    }

    fn entries(&mut self, columns: &[Column], header: &Header<'_>, depth: usize) -> Answer<Json> {
        let mut fields: Vec<(String, Json)> = Vec::new();
        while let Some(line) = self.next_at(depth) {
            self.at += 1;
            let colon = find(line.text, ':').ok_or("an entry without a colon")?;
            let key = key(line.text[..colon].trim_matches(' '))?;
            if fields.iter().any(|(other, _)| *other == key) {
                return Err(format!("twice: {key:?}"));
            }
            fields.push((key, row(&line.text[colon + 1..], columns, header.delimiter)?));
        }
        if fields.len() != header.len {
            return Err(format!("{} entries, not {}", fields.len(), header.len));
        }
        Ok(Json::Object(fields))
    }

    fn item(&mut self, text: &str, depth: usize) -> Answer<Json> {
        if text == "-" {
            return Ok(Json::Object(Vec::new()));
        }
        let rest = text.strip_prefix("- ").ok_or_else(|| format!("no item: {text:?}"))?;
        if rest == "[]" {
            return Ok(Json::Array(Vec::new()));
        }
        match header(rest)? {
            Some(header) if header.key.is_none() && header.columns.is_some() => {
                Err("a table without a key".to_owned())
            }
            Some(header) if header.key.is_none() => self.body(&header, depth),
            None if find(rest, ':').is_none() => primitive(rest),
            _ => {
                let first = self.field(rest, depth + 1)?;
                self.object(depth + 1, vec![first])
            }
        }
    }
}

/// The place of the first `wanted` outside quotes.
fn find(text: &str, wanted: char) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if character == wanted && !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

fn split(text: &str, delimiter: char) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(at) = find(rest, delimiter) {
        parts.push(&rest[..at]);
        rest = &rest[at + delimiter.len_utf8()..];
    }
    parts.push(rest);
    parts
}

fn header(text: &str) -> Answer<Option<Header<'_>>> {
    let Some(bracket) = find(text, '[') else { return Ok(None) };
    if find(text, ':').is_none_or(|colon| colon < bracket) {
        return Ok(None);
    }
    let name = &text[..bracket];
    if !name.is_empty() && !name.starts_with('"') && !is_bare(name) {
        return Ok(None);
    }
    let key = if name.is_empty() { None } else { Some(key(name)?) };
    let (inside, mut rest) = text[bracket + 1..].split_once(']').ok_or("an open bracket")?;
    let (inside, delimiter) = match inside.chars().last() {
        Some(last @ ('\t' | '|')) => (&inside[..inside.len() - 1], last),
        _ => (inside, ','),
    };
    let (digits, is_keyed) = match inside.strip_suffix(':') {
        Some(digits) => (digits, true),
        None => (inside, false),
    };
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return Err(format!("bad length: {text:?}"));
    }
    let len = digits.parse().map_err(|_| format!("bad length: {text:?}"))?;
    let mut columns = None;
    if rest.starts_with('{') {
        let end = closing(rest).ok_or("an open brace")?;
        columns = Some(self::columns(&rest[1..end], delimiter)?);
        rest = &rest[end + 1..];
    }
    let rest = rest.strip_prefix(':').ok_or_else(|| format!("no colon after the header: {text:?}"))?;
    if is_keyed && columns.is_none() {
        return Err("a keyed header without fields".to_owned());
    }
    Ok(Some(Header { key, len, is_keyed, delimiter, columns, rest }))
}

/// The place of the brace that closes the one in front.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let next = [find(rest, '{'), find(rest, '}')].into_iter().flatten().min()?;
        depth += if rest[next..].starts_with('{') { 1 } else { -1 };
        at += next;
        if depth == 0 {
            return Some(at);
        }
        at += 1;
    }
}

fn columns(text: &str, delimiter: char) -> Answer<Vec<Column>> {
    let mut all: Vec<Column> = Vec::new();
    let mut rest = text;
    loop {
        let end = [find(rest, delimiter), find(rest, '{')].into_iter().flatten().min().unwrap_or(rest.len());
        let name = key(rest[..end].trim_matches(' '))?;
        rest = &rest[end..];
        let mut inner = None;
        if rest.starts_with('{') {
            let end = closing(rest).ok_or("an open brace")?;
            inner = Some(columns(&rest[1..end], delimiter)?);
            rest = &rest[end + 1..];
        }
        if all.iter().any(|column| column.name == name) {
            return Err(format!("twice: {name:?}"));
        }
        all.push(Column { name, inner });
        match rest.strip_prefix(delimiter) {
            Some(after) => rest = after,
            None if rest.is_empty() => return Ok(all),
            None => return Err(format!("after a column: {rest:?}")),
        }
    }
}

fn row(text: &str, columns: &[Column], delimiter: char) -> Answer<Json> {
    let mut cells = split(text, delimiter).into_iter();
    let row = cells_of(columns, &mut cells)?;
    match cells.next() {
        Some(cell) => Err(format!("a cell too much: {cell:?}")),
        None => Ok(row),
    }
}

fn cells_of<'a>(columns: &[Column], cells: &mut impl Iterator<Item = &'a str>) -> Answer<Json> {
    let mut fields = Vec::new();
    for column in columns {
        let value = match &column.inner {
            Some(inner) => cells_of(inner, cells)?,
            None => primitive(cells.next().ok_or("a cell is missing")?)?,
        };
        fields.push((column.name.clone(), value));
    }
    Ok(Json::Object(fields))
}

fn key(token: &str) -> Answer<String> {
    if token.starts_with('"') { unquote(token) } else { Ok(token.to_owned()) }
}

fn is_bare(key: &str) -> bool {
    !key.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

fn primitive(token: &str) -> Answer<Json> {
    let token = token.trim_matches(' ');
    Ok(match token {
        "null" => Json::Null,
        "true" | "false" => Json::Bool(token == "true"),
        _ if token.starts_with('"') => Json::Text(unquote(token)?),
        _ if is_number(token) => Json::Number(token.to_owned()),
        _ => Json::text(token),
    })
}

/// TOON's numbers are those of JSON.
fn is_number(token: &str) -> bool {
    token.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && jsonspan::check(token.as_bytes()).is_ok()
}

fn unquote(token: &str) -> Answer<String> {
    let bad = || format!("bad string: {token:?}");
    let mut text = String::new();
    let mut rest = token.strip_prefix('"').ok_or_else(bad)?.chars();
    loop {
        match rest.next().ok_or_else(bad)? {
            '"' if rest.as_str().is_empty() => return Ok(text),
            '"' => return Err(bad()),
            '\\' => text.push(match rest.next().ok_or_else(bad)? {
                same @ ('"' | '\\') => same,
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    let digits = rest.as_str().get(..4).ok_or_else(bad)?;
                    rest = rest.as_str()[4..].chars();
                    u32::from_str_radix(digits, 16).ok().and_then(char::from_u32).ok_or_else(bad)?
                }
                _ => return Err(bad()),
            }),
            other => text.push(other),
        }
    }
}
