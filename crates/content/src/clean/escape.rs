//! The escapes of JSON, one at a time.

/// An escape of JSON: what it says, as UTF-8, and how long it is.
pub(super) struct Escape {
    pub(super) says: [u8; 4],
    pub(super) says_len: usize,
    pub(super) len: usize,
}

/// True if what follows a cut could still belong to the escape at the start of `tail`.
pub(super) fn may_go_on(tail: &[u8]) -> bool {
    match tail.get(1) {
        None => true,
        Some(b'u') => {
            tail.len() < 6
                || matches!(tail.get(2..4), Some([b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F']))
        }
        Some(_) => false,
    }
}

impl Escape {
    pub(super) fn plain(byte: u8, len: usize) -> Escape {
        Escape { says: [byte, 0, 0, 0], says_len: 1, len }
    }

    /// The escape at the start of `bytes`, which is a backslash.
    pub(super) fn read(bytes: &[u8]) -> Option<Escape> {
        let says = match *bytes.get(1)? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return Escape::unicode(bytes),
            _ => return None,
        };
        Some(Escape::plain(says, 2))
    }

    fn unicode(bytes: &[u8]) -> Option<Escape> {
        let first = unit(bytes.get(..6)?)?;
        let second = bytes.get(6..12).and_then(unit);
        let (character, len) = match (char::from_u32(first.into()), second) {
            (Some(character), _) => (character, 6),
            (None, Some(second)) => match char::decode_utf16([first, second]).next() {
                Some(Ok(character)) => (character, 12),
                _ => (char::REPLACEMENT_CHARACTER, 6),
            },
            (None, None) => (char::REPLACEMENT_CHARACTER, 6),
        };
        let mut says = [0; 4];
        let says_len = character.encode_utf8(&mut says).len();
        Some(Escape { says, says_len, len })
    }
}

/// The number in `\uXXXX`.
fn unit(escape: &[u8]) -> Option<u16> {
    let digits = escape.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0_u16, |unit, &digit| {
        let digit = char::from(digit).to_digit(16).and_then(|digit| u16::try_from(digit).ok())?;
        Some((unit << 4) | digit)
    })
}
