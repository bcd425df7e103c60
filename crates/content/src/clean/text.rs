//! Cleaning what is no answer: a text, or a JSON value of bearable size.

use std::borrow::Cow;

use jsonspan::{Unescape, escape_into};

use super::cleaning::Cleaning;
use super::findings::{Blocked, Findings};
use super::pass::Pass;

/// Cleans a JSON value in memory: every string in it, keys too.
///
/// # Errors
/// If it is not JSON, or must not be passed on.
pub fn clean_json<'a>(json: &'a [u8], cleaning: &Cleaning) -> Result<(Cow<'a, [u8]>, Findings), Blocked> {
    jsonspan::check(json)?;
    if cleaning.is_off() {
        return Ok((Cow::Borrowed(json), Findings::default()));
    }
    let source = json.to_vec();
    let place = |_| "/".to_owned();
    let mut pass = Pass::new(cleaning, &place);
    pass.run(&source, &[], &|| false)?;
    let (edits, findings) = pass.finish();
    let (mut cleaned, mut done) = (Vec::new(), 0);
    for edit in edits.iter() {
        let (start, end) = (index(edit.span().start), index(edit.span().end));
        cleaned.extend_from_slice(json.get(done..start).unwrap_or_default());
        cleaned.extend_from_slice(edit.replacement());
        done = end;
    }
    if done == 0 {
        return Ok((Cow::Borrowed(json), findings));
    }
    cleaned.extend_from_slice(json.get(done..).unwrap_or_default());
    Ok((Cow::Owned(cleaned), findings))
}

/// Cleans a text.
///
/// # Errors
/// If it must not be passed on.
pub fn clean_text<'a>(text: &'a str, cleaning: &Cleaning) -> Result<(Cow<'a, str>, Findings), Blocked> {
    if cleaning.is_off() {
        return Ok((Cow::Borrowed(text), Findings::default()));
    }
    let mut literal = Vec::with_capacity(text.len() + 2);
    escape_into(text, &mut literal);
    let (cleaned, findings) = clean_json(&literal, cleaning)?;
    let Cow::Owned(cleaned) = cleaned else { return Ok((Cow::Borrowed(text), findings)) };
    let mut bytes = Vec::with_capacity(cleaned.len());
    let mut unescape = Unescape::new();
    unescape.push(cleaned.get(1..cleaned.len() - 1).unwrap_or_default(), &mut bytes);
    unescape.finish(&mut bytes);
    Ok((Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()), findings))
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
