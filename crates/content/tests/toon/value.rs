//! JSON values as the tests compare them: numbers by value, whatever their spelling or size.

use std::collections::HashMap;

#[derive(Debug, Clone)]
pub enum Json {
    Null,
    Bool(bool),
    /// Spelled in any way.
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn text(text: &str) -> Json {
        Json::Text(text.to_owned())
    }

    pub fn from_serde(value: &serde_json::Value) -> Json {
        match value {
            serde_json::Value::Null => Json::Null,
            serde_json::Value::Bool(value) => Json::Bool(*value),
            serde_json::Value::Number(number) => Json::Number(number.to_string()),
            serde_json::Value::String(text) => Json::text(text),
            serde_json::Value::Array(all) => Json::Array(all.iter().map(Json::from_serde).collect()),
            serde_json::Value::Object(all) => {
                Json::Object(all.iter().map(|(key, value)| (key.clone(), Json::from_serde(value))).collect())
            }
        }
    }

    /// Reads JSON text with every digit. It must be JSON.
    pub fn parse(text: &str) -> Json {
        let mut open: Vec<(Option<String>, Json)> = Vec::new();
        let mut key = None;
        let mut root = None;
        let mut done = |value: Json, key: Option<String>, open: &mut Vec<(Option<String>, Json)>| match open
            .last_mut()
        {
            None => root = Some(value),
            Some((_, Json::Array(all))) => all.push(value),
            Some((_, Json::Object(all))) => all.push((key.unwrap(), value)),
            Some(_) => unreachable!(),
        };
        let spelled = |span: jsonspan::Span| text[span.start as usize..span.end as usize].to_owned();
        let decoded = |span: jsonspan::Span| {
            let (mut out, mut decoder) = (Vec::new(), jsonspan::Unescape::new());
            decoder.push(spelled(span.inside()).as_bytes(), &mut out);
            decoder.finish(&mut out);
            String::from_utf8(out).unwrap()
        };
        let mut sink = |event: jsonspan::Event<'_>| match event {
            jsonspan::Event::ObjectBegin { .. } => open.push((key.take(), Json::Object(Vec::new()))),
            jsonspan::Event::ArrayBegin { .. } => open.push((key.take(), Json::Array(Vec::new()))),
            jsonspan::Event::ObjectEnd { .. } | jsonspan::Event::ArrayEnd { .. } => {
                let (key, value) = open.pop().unwrap();
                done(value, key, &mut open);
            }
            jsonspan::Event::Key(token) => key = Some(decoded(token.span)),
            jsonspan::Event::String(token) => done(Json::Text(decoded(token.span)), key.take(), &mut open),
            jsonspan::Event::Number(token) => {
                done(Json::Number(spelled(token.span)), key.take(), &mut open);
            }
            jsonspan::Event::Literal(token) => {
                let value = match spelled(token.span).as_str() {
                    "null" => Json::Null,
                    word => Json::Bool(word == "true"),
                };
                done(value, key.take(), &mut open);
            }
        };
        let mut scanner = jsonspan::Scanner::new();
        scanner.feed(text.as_bytes(), &mut sink).unwrap();
        scanner.finish(&mut sink).unwrap();
        root.unwrap()
    }

    /// Equal as JSON; the order of keys does not count, for tables bring them into one order.
    pub fn equals(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Null, Json::Null) => true,
            (Json::Bool(a), Json::Bool(b)) => a == b,
            (Json::Number(a), Json::Number(b)) => decimal(a) == decimal(b),
            (Json::Text(a), Json::Text(b)) => a == b,
            (Json::Array(a), Json::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
            }
            (Json::Object(a), Json::Object(b)) => {
                let other: HashMap<_, _> = b.iter().map(|(key, value)| (key, value)).collect();
                let same = |(key, value): &(String, Json)| other.get(key).is_some_and(|b| value.equals(b));
                a.len() == b.len() && other.len() == b.len() && a.iter().all(same)
            }
            _ => false,
        }
    }
}

/// Sign, digits without zeros at the ends, and where the point stands before or in or after them.
fn decimal(number: &str) -> (bool, String, i64) {
    let lower = number.to_lowercase();
    let (mantissa, exponent) = lower.split_once('e').unwrap_or((&lower, "0"));
    let (negative, unsigned) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut point = whole.len() as i64 + exponent.parse::<i64>().unwrap();
    let mut digits = format!("{whole}{fraction}");
    while digits.starts_with('0') {
        digits.remove(0);
        point -= 1;
    }
    digits.truncate(digits.trim_end_matches('0').len());
    if digits.is_empty() { (false, digits, 0) } else { (negative, digits, point) }
}
