//! What a pattern cannot tell: whether a value is random, a word, a template, or what it decodes to.

use std::ops::Range;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::super::view::EDGE;
use super::randomness::{entropy, is_identifier, is_plain_word, is_wordy, mixes};

/// A match with what stands around it.
pub(crate) struct Context<'a> {
    pub(crate) text: &'a [u8],
    /// Where the match begins.
    pub(crate) start: usize,
    pub(crate) secret: Range<usize>,
}

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);

/// Base64 as others write it: padding or not.
pub(crate) const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
/// The same for the alphabet of URLs.
pub(crate) const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Names that end so hold a key that is secret.
const KEY_NAMES: [&str; 17] = [
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "masterkey",
    "encryptionkey",
    "signingkey",
    "authkey",
    "accountkey",
    "appkey",
    "licensekey",
    "servicekey",
    "adminkey",
    "sharedkey",
    "sessionkey",
    "clientkey",
    "webhookkey",
];

/// Names with these hold a token that is none: places in lists, numbers of words.
const OTHER_TOKENS: [&str; 19] = [
    "page",
    "next",
    "prev",
    "contin",
    "cursor",
    "sync",
    "resume",
    "max",
    "num",
    "count",
    "total",
    "prompt",
    "completion",
    "input",
    "output",
    "cache",
    "stop",
    "mask",
    "special",
];

const TEMPLATES: [&[u8]; 17] = [
    b"xxxx",
    b"XXXX",
    b"****",
    b"....",
    b"EXAMPLE",
    b"example",
    b"your",
    b"YOUR",
    b"${",
    b"{{",
    b"$(",
    b"%(",
    b"placeholder",
    b"PLACEHOLDER",
    b"changeme",
    b"REDACTED",
    b"://",
];

impl<'a> Context<'a> {
    fn value(&self) -> &'a [u8] {
        self.text.get(self.secret.clone()).unwrap_or_default()
    }

    /// The name that the match begins in, without case and separators.
    fn name(&self) -> String {
        let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let before = self.text.get(self.start.saturating_sub(32)..self.start).unwrap_or_default();
        let head = before.iter().rev().take_while(is_name).count();
        let from = before.get(before.len() - head..).unwrap_or_default();
        let after = self.text.get(self.start..self.secret.start).unwrap_or_default();
        let tail = after.iter().take_while(is_name);
        let bytes = from.iter().chain(tail).filter(|byte| byte.is_ascii_alphanumeric());
        bytes.map(|byte| char::from(byte.to_ascii_lowercase())).collect()
    }

    /// True if the value is, or stands in, the name of a resource of a cloud, which tells where a secret lies and not what it is.
    fn in_resource_name(&self) -> bool {
        let before = self.text.get(self.start.saturating_sub(100)..self.start).unwrap_or_default();
        let word =
            before.iter().rposition(|byte| !byte.is_ascii_graphic() || *byte == b'"').map_or(0, |at| at + 1);
        let word = before.get(word..).unwrap_or_default();
        word.starts_with(b"arn:") || self.value().starts_with(b"arn:")
    }

    /// True if the value is an expression of a program, not a text: it is called, indexed, or a path of names.
    fn is_code(&self) -> bool {
        let quoted = self.secret.start.checked_sub(1).and_then(|at| self.text.get(at));
        if quoted.is_some_and(|byte| matches!(*byte, b'"' | b'\'' | b'`' | EDGE)) {
            return false;
        }
        match self.text.get(self.secret.end..).unwrap_or_default() {
            [b'<', b'/', ..] => {}
            [b'(' | b'[' | b'{' | b'<', ..] => return true,
            _ => {}
        }
        let value = self.value();
        if memchr::memmem::find(value, b"::").is_some() {
            return true;
        }
        let mut parts = value.split(|byte| *byte == b'.').peekable();
        parts.peek().is_some() && parts.all(is_identifier)
    }
}

pub(crate) fn always(_: &Context<'_>) -> bool {
    true
}

/// The value of a token with a prefix is random, not the words of an example.
pub(crate) fn is_random(context: &Context<'_>) -> bool {
    let value = context.value();
    let is_words = value.split(|byte| !byte.is_ascii_alphanumeric()).all(is_plain_word);
    mixes(value) && entropy(value) >= 3.0 && !is_template(value) && !is_words
}

pub(crate) fn is_aws_id(context: &Context<'_>) -> bool {
    let value = context.value();
    !is_template(value) && entropy(value.get(4..).unwrap_or_default()) >= 2.2
}

pub(crate) fn is_aws_secret(context: &Context<'_>) -> bool {
    let value = context.value();
    let next = context.text.get(context.secret.end);
    let goes_on = next.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    let is_base64 = value.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'));
    value.len() == 40
        && is_base64
        && !goes_on
        && !is_template(value)
        && mixes(value)
        && entropy(value) >= 3.7
        && !is_wordy(value)
}

pub(crate) fn is_secret_text(context: &Context<'_>) -> bool {
    let value = context.value();
    let random = value.iter().any(u8::is_ascii_digit) || (value.len() >= 20 && mixes(value));
    random && !is_template(value) && !is_wordy(value) && entropy(value) >= 2.8
}

/// The value of something that is called a secret.
pub(crate) fn is_secret_value(context: &Context<'_>) -> bool {
    let value = context.value();
    let plain = value.iter().all(|byte| byte.is_ascii_graphic());
    plain
        && !matches!(value.first(), Some(b':' | b'=' | b'$' | b'%' | b'@' | b'#'))
        && !context.in_resource_name()
        && is_secret_text(context)
        && !context.is_code()
}

pub(crate) fn is_key_value(context: &Context<'_>) -> bool {
    let name = context.name();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == 's');
    KEY_NAMES.iter().any(|known| name.ends_with(known)) && is_secret_value(context)
}

pub(crate) fn is_token_value(context: &Context<'_>) -> bool {
    let name = context.name();
    !OTHER_TOKENS.iter().any(|other| name.contains(other)) && is_secret_value(context)
}

/// People choose passwords that are less random than tokens.
pub(crate) fn is_password(context: &Context<'_>) -> bool {
    let value = context.value();
    let letters = value.iter().any(u8::is_ascii_alphabetic);
    let others = mixes(value) || value.iter().any(|byte| !byte.is_ascii_alphabetic());
    let plain = value.iter().all(|byte| !byte.is_ascii_whitespace() && !byte.is_ascii_control());
    let first_bad =
        |byte: &u8| matches!(byte, b':' | b'=' | b'/' | b'%' | b'{' | b'[' | b'(' | b'<' | b'.' | b'?');
    plain
        && letters
        && others
        && !value.first().is_some_and(first_bad)
        && !is_variable(value)
        && !is_template(value)
        && !is_wordy(value)
        && entropy(value) >= 2.2
        && !context.is_code()
}

/// A signed or enciphered token: its first part is a JSON object that names an algorithm.
pub(crate) fn is_jwt(context: &Context<'_>) -> bool {
    let head = context.value().split(|byte| *byte == b'.').next().unwrap_or_default();
    let Ok(head) = URL_SAFE.decode(head.get(..4096).unwrap_or(head)) else { return false };
    head.first() == Some(&b'{') && memchr::memmem::find(&head, b"\"alg\"").is_some()
}

/// A name, a colon and a password in base64.
pub(crate) fn is_basic(context: &Context<'_>) -> bool {
    let value = context.value();
    let url_safe = value.iter().any(|byte| matches!(byte, b'-' | b'_'));
    let decoded = if url_safe { URL_SAFE.decode(value) } else { STANDARD.decode(value) };
    decoded.is_ok_and(|text| {
        str::from_utf8(&text).is_ok_and(|text| text.contains(':') && !text.chars().any(char::is_control))
    })
}

pub(crate) fn is_database_url(context: &Context<'_>) -> bool {
    is_database(&scheme(context)) && !is_url_template(context.value())
}

pub(crate) fn is_url_password(context: &Context<'_>) -> bool {
    let scheme = scheme(context);
    !scheme.is_empty() && !is_database(&scheme) && !is_url_template(context.value())
}

fn is_url_template(value: &[u8]) -> bool {
    let template = matches!(value.first(), Some(b'$' | b'{' | b'<' | b'[' | b'%' | b'*'))
        && (!mixes(value) || value.ends_with(b"}"));
    template
        || is_variable(value)
        || value.iter().all(|byte| matches!(byte, b'*' | b'x' | b'X' | b'.'))
        || value.starts_with(b"[REDACTED")
        || value.starts_with(b"${")
        || value.starts_with(b"{{")
}

fn scheme(context: &Context<'_>) -> String {
    let before = context.text.get(context.start.saturating_sub(24)..context.start).unwrap_or_default();
    let is_scheme = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-');
    let len = before.iter().rev().take_while(is_scheme).count();
    let scheme = before.get(before.len() - len..).unwrap_or_default();
    String::from_utf8_lossy(scheme).to_ascii_lowercase()
}

fn is_database(scheme: &str) -> bool {
    const DATABASES: [&str; 17] = [
        "postgres",
        "mysql",
        "mariadb",
        "mongodb",
        "redis",
        "amqp",
        "mssql",
        "sqlserver",
        "oracle",
        "clickhouse",
        "cockroach",
        "neo4j",
        "bolt",
        "couchdb",
        "cassandra",
        "influxdb",
        "snowflake",
    ];
    DATABASES.iter().any(|database| scheme.starts_with(database))
}

/// `$NAME`, `$name`, `%NAME%`: filled in by somebody else.
fn is_variable(value: &[u8]) -> bool {
    let name = value
        .strip_prefix(b"$")
        .or_else(|| value.strip_prefix(b"%").and_then(|rest| rest.strip_suffix(b"%")));
    let is_part = |byte: &u8| *byte == b'_' || byte.is_ascii_uppercase() || byte.is_ascii_digit();
    name.is_some_and(|name| !name.is_empty() && (name.iter().all(is_part) || is_wordy(name)))
}

fn is_template(value: &[u8]) -> bool {
    TEMPLATES.iter().any(|template| memchr::memmem::find(value, template).is_some())
}
