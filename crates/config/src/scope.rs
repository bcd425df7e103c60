//! Values of one object of the file, with the defaults of the keys table behind them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::duration;
use crate::keys;
use crate::problem::member;

/// The top level or one server entry. A value of the wrong type reads as absent: `inspect` has reported it.
pub(crate) struct Scope<'d> {
    object: &'d Map<String, Value>,
    at: &'d str,
    prefix: &'static str,
}

impl<'d> Scope<'d> {
    /// The top level.
    pub(crate) fn global(object: &'d Map<String, Value>) -> Self {
        Self { object, at: "$", prefix: "" }
    }

    /// The server entry at the JSON path `at`.
    pub(crate) fn server(object: &'d Map<String, Value>, at: &'d str) -> Self {
        Self { object, at, prefix: keys::SERVER }
    }

    /// The JSON path of a key.
    pub(crate) fn path(&self, key: &str) -> String {
        key.split('.').fold(self.at.to_owned(), |path, name| member(&path, name))
    }

    /// What the file says, if it says anything; `null` is nothing.
    pub(crate) fn given(&self, key: &str) -> Option<&'d Value> {
        let mut names = key.split('.');
        let first = self.object.get(names.next()?)?;
        names.try_fold(first, |value, name| value.get(name)).filter(|value| !value.is_null())
    }

    /// A switch.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.optional_flag(key).unwrap_or_else(|| self.default(key).as_bool().unwrap_or(false))
    }

    /// A switch without a default.
    pub(crate) fn optional_flag(&self, key: &str) -> Option<bool> {
        self.given(key).and_then(Value::as_bool)
    }

    /// A whole number that is not negative.
    pub(crate) fn count(&self, key: &str) -> u64 {
        self.optional_count(key).unwrap_or_else(|| whole(&self.default(key)).unwrap_or(0))
    }

    /// A whole number that is not negative, without a default.
    pub(crate) fn optional_count(&self, key: &str) -> Option<u64> {
        self.given(key).and_then(whole)
    }

    /// A text that is not empty.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let given =
            self.given(key).and_then(Value::as_str).map(str::to_owned).filter(|text| !text.is_empty());
        given.or_else(|| self.default(key).as_str().map(str::to_owned)).filter(|text| !text.is_empty())
    }

    /// A list of texts; numbers in it are written out.
    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        let default = self.default(key);
        let list = self.given(key).filter(|value| value.is_array()).unwrap_or(&default);
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        list.as_array().map(|list| list.iter().map(text).collect()).unwrap_or_default()
    }

    /// A list of paths.
    pub(crate) fn paths(&self, key: &str) -> Vec<PathBuf> {
        self.texts(key).into_iter().map(PathBuf::from).collect()
    }

    /// An object of texts.
    pub(crate) fn text_map(&self, key: &str) -> BTreeMap<String, String> {
        self.pairs(key).into_iter().collect()
    }

    /// An object of texts in the order of the file.
    pub(crate) fn pairs(&self, key: &str) -> Vec<(String, String)> {
        let members = self.given(key).and_then(Value::as_object).into_iter().flatten();
        members.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    }

    /// A duration.
    pub(crate) fn duration(&self, key: &str) -> Duration {
        self.optional_duration(key).unwrap_or_else(|| as_duration(&self.default(key)).unwrap_or_default())
    }

    /// A duration without a default.
    pub(crate) fn optional_duration(&self, key: &str) -> Option<Duration> {
        self.given(key).and_then(as_duration)
    }

    fn default(&self, key: &str) -> Value {
        keys::find(self.prefix, key).map_or(Value::Null, keys::Key::default_value)
    }
}

fn as_duration(value: &Value) -> Option<Duration> {
    duration::parse(value.as_str()?).ok()
}

/// A number that is whole and not negative, also when it is written as `1e3`.
fn whole(value: &Value) -> Option<u64> {
    as_whole(value).ok().and_then(|number| u64::try_from(number).ok())
}

/// Why a value is no whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotWhole {
    /// No number at all.
    NoNumber,
    /// A number with a fraction.
    Fraction,
    /// More than 63 bits hold.
    TooLarge,
}

/// The whole number that a value is.
pub(crate) fn as_whole(value: &Value) -> Result<i64, NotWhole> {
    /// Above this, a float no longer holds every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(number) = value.as_i64() {
        return Ok(number);
    }
    match value.as_f64() {
        None => Err(NotWhole::NoNumber),
        Some(number) if number.abs() > EXACT => Err(NotWhole::TooLarge),
        Some(number) if number.fract() != 0.0 => Err(NotWhole::Fraction),
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53, checked above")]
        Some(number) => Ok(number as i64),
    }
}
