//! Credentials in URLs: what stands between `://` and `@`.

use std::ops::Range;

/// The most bytes between them.
const LONGEST: usize = 512;

/// The password of the URL whose `://` stands at `keyword`; if `alone`, what stands there instead of a name and a password.
pub(super) fn find(text: &[u8], keyword: usize, alone: bool, work: &mut u64) -> Option<Range<usize>> {
    let start = keyword + 3;
    let rest = text.get(start..)?;
    let rest = rest.get(..LONGEST).unwrap_or(rest);
    if rest.first() == Some(&b'[') {
        // A host in the way of IPv6, or a mark.
        return None;
    }
    let (mut colon, mut end, mut len) = (None, None, 0);
    for (at, &byte) in rest.iter().enumerate() {
        match byte {
            b':' if colon.is_none() && end.is_none() => colon = Some(at),
            // A password may hold one, though it should not: the last one counts.
            b'@' => end = Some(at),
            0..=b' ' | b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\' | 0x80.. => break,
            _ => {}
        }
        len = at;
    }
    *work += len as u64;
    let end = end?;
    let host = rest.get(end + 1)?;
    if !host.is_ascii_alphanumeric() && !matches!(host, b'_' | b'.' | b'[' | b'$' | b'(' | b'{' | b'%' | b'-')
    {
        return None;
    }
    match colon {
        Some(colon) if !alone && colon + 1 < end => Some(start + colon + 1..start + end),
        None if alone && end >= 20 && rest.get(..end)?.iter().all(is_token) => Some(start..start + end),
        _ => None,
    }
}

fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}
