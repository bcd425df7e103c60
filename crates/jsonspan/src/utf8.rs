//! UTF-8 checked piece by piece, also where a character is cut by the end of a piece.

/// Remembers the first bytes of a character whose rest is still to come.
#[derive(Debug, Default)]
pub(crate) struct Utf8 {
    cut: [u8; 4],
    cut_len: usize,
}

/// The piece is not UTF-8: `good` bytes at its start may be read, and the bad character begins `before` bytes before the end of
/// those.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) good: usize,
    pub(crate) before: usize,
}

impl Utf8 {
    /// Checks the next piece. A character that is not complete at its end is taken for good until the next piece.
    pub(crate) fn check(&mut self, piece: &[u8]) -> Result<(), Broken> {
        let taken = self.complete(piece)?;
        let rest = piece.get(taken..).unwrap_or_default();
        if simdutf8::basic::from_utf8(rest).is_ok() {
            return Ok(());
        }
        let Err(error) = std::str::from_utf8(rest) else { return Ok(()) };
        let good = error.valid_up_to();
        if error.error_len().is_some() {
            return Err(Broken { good: taken + good, before: 0 });
        }
        for &byte in rest.get(good..).unwrap_or_default() {
            self.remember(byte);
        }
        Ok(())
    }

    /// Takes bytes of the piece until the character that was cut is complete; says how many.
    fn complete(&mut self, piece: &[u8]) -> Result<usize, Broken> {
        let before = self.cut_len;
        if before == 0 {
            return Ok(0);
        }
        for (taken, &byte) in piece.iter().enumerate() {
            self.remember(byte);
            match std::str::from_utf8(self.cut.get(..self.cut_len).unwrap_or_default()) {
                Ok(_) => {
                    self.cut_len = 0;
                    return Ok(taken + 1);
                }
                Err(error) if error.error_len().is_some() => return Err(Broken { good: 0, before }),
                Err(_) => {}
            }
        }
        Ok(piece.len())
    }

    fn remember(&mut self, byte: u8) {
        if let Some(place) = self.cut.get_mut(self.cut_len) {
            *place = byte;
            self.cut_len += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_cut_anywhere_is_whole_again() {
        let text = "aé€😀z".as_bytes();
        for cut in 0..=text.len() {
            let mut utf8 = Utf8::default();
            assert_eq!(utf8.check(&text[..cut]), Ok(()));
            assert_eq!(utf8.check(&text[cut..]), Ok(()), "cut at {cut}");
        }
    }

    #[test]
    fn a_bad_second_half_points_at_the_first_half() {
        let mut utf8 = Utf8::default();
        assert_eq!(utf8.check(b"ab\xe2\x82"), Ok(()));
        assert_eq!(utf8.check(b"x"), Err(Broken { good: 0, before: 2 }));
    }

    #[test]
    fn surrogates_overlong_and_stray_bytes_are_refused() {
        for bad in [&b"a\xed\xa0\x80"[..], b"a\xc0\xaf", b"a\xff", b"a\x80", b"a\xf4\x90\x80\x80"] {
            assert_eq!(Utf8::default().check(bad), Err(Broken { good: 1, before: 0 }), "{bad:x?}");
        }
    }
}
