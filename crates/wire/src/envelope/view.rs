//! What the scanner's events say about a message: the members of its top level, and those of its `error`.

use jsonspan::{Event, Span, Token};

use super::Id;

/// What was seen of a message so far. Of members that come twice the last one counts.
#[derive(Default)]
pub(super) struct View {
    pub begun: bool,
    pub not_object: bool,
    /// `jsonrpc` was there.
    pub version: bool,
    pub id: Option<Id>,
    pub method: Option<String>,
    pub params: Option<Span>,
    pub result: Option<Span>,
    pub error: Option<Span>,
    pub error_shape: ErrorShape,
    pub code: i64,
    pub message: Option<Span>,
    pub data: Option<Span>,
    depth: usize,
    member: Member,
    member_start: u64,
    part: Part,
    part_start: u64,
    result_begun: bool,
    /// An `error` that is an object has begun.
    error_begun: bool,
    params_begun: bool,
    in_error: bool,
}

#[derive(Default, Clone, Copy)]
pub(super) enum ErrorShape {
    Object,
    #[default]
    Other,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Member {
    #[default]
    Other,
    Version,
    Id,
    Method,
    Params,
    Result,
    Error,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Part {
    #[default]
    Other,
    Code,
    Message,
    Data,
}

#[derive(Clone, Copy, PartialEq)]
enum Scalar {
    String,
    Number,
    Literal,
}

impl View {
    pub(super) fn see(&mut self, event: Event<'_>) {
        match event {
            Event::ObjectBegin { at } => self.open(at, true),
            Event::ArrayBegin { at } => self.open(at, false),
            Event::ObjectEnd { end } | Event::ArrayEnd { end } => self.close(end),
            Event::Key(token) => match self.depth {
                1 => self.member = Member::of(&token),
                2 if self.in_error => self.part = Part::of(&token),
                _ => {}
            },
            Event::String(token) => self.scalar(&token, Scalar::String),
            Event::Number(token) => self.scalar(&token, Scalar::Number),
            Event::Literal(token) => self.scalar(&token, Scalar::Literal),
        }
    }

    /// Whether what was seen looks like an answer. Log lines are JSON objects too, and some have an `error`.
    pub(super) fn is_answer(&self) -> bool {
        let request = self.method.is_some() || self.params_begun;
        self.result_begun
            || (self.error_begun && (self.version || self.id.is_some()))
            || (self.version && !request)
    }

    /// Whether an answer has begun, be it one of JSON-RPC or not.
    pub(super) fn has_begun_answer(&self) -> bool {
        self.result_begun || self.error_begun
    }

    fn open(&mut self, at: u64, object: bool) {
        match self.depth {
            0 => {
                self.begun = true;
                self.not_object = !object;
            }
            1 => {
                self.member_start = at;
                self.result_begun |= self.member == Member::Result;
                self.params_begun |= self.member == Member::Params;
                if self.member == Member::Error && object {
                    self.in_error = true;
                    self.error_begun = true;
                    (self.code, self.message, self.data) = (0, None, None);
                }
            }
            2 if self.in_error => self.part_start = at,
            _ => {}
        }
        self.depth += 1;
    }

    fn close(&mut self, end: u64) {
        self.depth = self.depth.saturating_sub(1);
        match self.depth {
            1 => {
                let shape = if self.in_error { ErrorShape::Object } else { ErrorShape::Other };
                self.in_error = false;
                self.end_member(Span { start: self.member_start, end }, shape);
            }
            2 if self.in_error => self.end_part(Span { start: self.part_start, end }),
            _ => {}
        }
    }

    fn scalar(&mut self, token: &Token<'_>, scalar: Scalar) {
        match self.depth {
            0 => {
                self.begun = true;
                self.not_object = true;
            }
            1 => self.scalar_member(token, scalar),
            2 if self.in_error => {
                if self.part == Part::Code {
                    self.code = whole_number(token, scalar).unwrap_or(0);
                }
                self.end_part(token.span);
            }
            _ => {}
        }
    }

    fn scalar_member(&mut self, token: &Token<'_>, scalar: Scalar) {
        let null = scalar == Scalar::Literal && token.raw() == Some(b"null");
        match self.member {
            Member::Version => self.version = scalar == Scalar::String,
            Member::Id => self.id = if null { None } else { id(token, scalar) },
            Member::Method if scalar == Scalar::String => {
                self.method = Some(token.text().unwrap_or_default().into_owned());
            }
            Member::Params if null => self.params = None,
            // Some servers send both members, the one that does not apply as null.
            Member::Error if null => self.error = None,
            Member::Result => {
                self.result_begun = true;
                self.end_member(token.span, ErrorShape::Other);
            }
            _ => self.end_member(token.span, ErrorShape::Other),
        }
    }

    fn end_member(&mut self, span: Span, shape: ErrorShape) {
        match self.member {
            Member::Params => self.params = Some(span),
            Member::Result => self.result = Some(span),
            Member::Error => {
                self.error = Some(span);
                self.error_shape = shape;
                if matches!(shape, ErrorShape::Other) {
                    (self.code, self.message, self.data) = (0, None, None);
                }
            }
            _ => {}
        }
        self.member = Member::Other;
    }

    fn end_part(&mut self, span: Span) {
        match self.part {
            Part::Message => self.message = Some(span),
            Part::Data => self.data = Some(span),
            Part::Code | Part::Other => {}
        }
        self.part = Part::Other;
    }
}

impl Member {
    fn of(key: &Token<'_>) -> Member {
        match key.text().as_deref() {
            Some("jsonrpc") => Member::Version,
            Some("id") => Member::Id,
            Some("method") => Member::Method,
            Some("params") => Member::Params,
            Some("result") => Member::Result,
            Some("error") => Member::Error,
            _ => Member::Other,
        }
    }
}

impl Part {
    fn of(key: &Token<'_>) -> Part {
        match key.text().as_deref() {
            Some("code") => Part::Code,
            Some("message") => Part::Message,
            Some("data") => Part::Data,
            _ => Part::Other,
        }
    }
}

fn id(token: &Token<'_>, scalar: Scalar) -> Option<Id> {
    if let Some(number) = whole_number(token, scalar) {
        return Some(Id::Number(number));
    }
    let raw = std::str::from_utf8(token.raw()?).ok()?;
    Some(Id::Raw(if scalar == Scalar::String { format!("\"{raw}\"").into() } else { raw.into() }))
}

/// The whole number that a number token stands for: `7`, but also `7.0` and `7e0`.
fn whole_number(token: &Token<'_>, scalar: Scalar) -> Option<i64> {
    if scalar != Scalar::Number {
        return None;
    }
    let text = std::str::from_utf8(token.raw()?).ok()?;
    let exact = 9_007_199_254_740_992.0;
    let rounded = || text.parse::<f64>().ok().filter(|f| f.fract() == 0.0 && f.abs() < exact);
    #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
    text.parse().ok().or_else(|| rounded().map(|f| f as i64))
}
