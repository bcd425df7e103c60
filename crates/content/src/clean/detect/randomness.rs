//! Whether bytes look random, or like words and the names of things.

/// Letters with digits, or letters of both cases.
pub(super) fn mixes(value: &[u8]) -> bool {
    let has = |kind: fn(&u8) -> bool| value.iter().any(kind);
    let (lower, upper, digit) =
        (has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase), has(u8::is_ascii_digit));
    (lower && upper) || (digit && (lower || upper))
}

/// Bits for each byte, by how often each byte occurs.
pub(super) fn entropy(value: &[u8]) -> f32 {
    let mut counts = [0_u16; 256];
    for &byte in value.iter().take(1024) {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let total = f32::from(counts.iter().sum::<u16>());
    let bits = |count: u16| -f32::from(count) * (f32::from(count) / total).log2();
    counts.iter().filter(|count| **count > 0).map(|&count| bits(count)).sum::<f32>() / total.max(1.0)
}

/// True if the value is words, as in the name of a thing, with short numbers between them.
pub(super) fn is_wordy(value: &[u8]) -> bool {
    value.split(|byte| !byte.is_ascii_alphanumeric()).all(is_word)
}

fn is_word(part: &[u8]) -> bool {
    let digits = part.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let letters = part.get(..part.len() - digits).unwrap_or_default();
    if letters.is_empty() {
        return digits <= 6;
    }
    part.len() <= 3 || (digits <= 1 && letters.iter().all(u8::is_ascii_alphabetic) && is_camel(letters, 3))
}

/// Letters of one case, or words of `shortest` letters or more that begin with a capital, the first perhaps without one.
fn is_camel(letters: &[u8], shortest: usize) -> bool {
    if letters.iter().all(u8::is_ascii_uppercase) || letters.iter().all(u8::is_ascii_lowercase) {
        return letters.len() <= 20;
    }
    let (mut word, mut capitals, mut words) = (0, 0, 0);
    for (at, byte) in letters.iter().enumerate() {
        if !byte.is_ascii_uppercase() {
            word += 1;
            continue;
        }
        let short = at > 0 && capitals <= 1 && word < if words == 0 { 2 } else { shortest };
        let in_a_row = at > 0 && letters.get(at - 1).is_some_and(u8::is_ascii_uppercase);
        if short && !in_a_row {
            return false;
        }
        capitals = if in_a_row { capitals + 1 } else { 1 };
        if !in_a_row {
            words += 1;
            word = 0;
        }
        word += 1;
    }
    word >= shortest
}

/// Letters of one case and at most two digits after them, or a number of four digits.
pub(super) fn is_plain_word(part: &[u8]) -> bool {
    let digits = part.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let letters = part.get(..part.len() - digits).unwrap_or_default();
    if letters.is_empty() {
        return digits <= 4;
    }
    let one_case = letters.iter().all(u8::is_ascii_lowercase) || letters.iter().all(u8::is_ascii_uppercase);
    one_case && digits <= 2 && letters.len() <= 20
}

/// A name as programs have them: words joined by `_` or by capitals, a few digits among them.
pub(super) fn is_identifier(name: &[u8]) -> bool {
    let begins = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$'));
    let goes_on = name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'));
    // A curve is a word.
    let curves = memchr::memmem::find_iter(name, b"25519").count();
    let digits = name.iter().filter(|byte| byte.is_ascii_digit()).count() - 5 * curves;
    let joined = name.contains(&b'_');
    begins
        && goes_on
        && digits * 4 <= name.len()
        && digits <= if joined { 6 } else { 3 }
        && name.split(|byte| matches!(byte, b'_' | b'$')).all(|part| is_identifier_part(part, joined, digits))
}

fn is_identifier_part(part: &[u8], joined: bool, digits: usize) -> bool {
    let letters: Vec<u8> = part.iter().copied().filter(u8::is_ascii_alphabetic).collect();
    if letters.iter().all(u8::is_ascii_uppercase) || letters.iter().all(u8::is_ascii_lowercase) {
        return joined || digits <= 1;
    }
    let in_a_row = letters.windows(2).filter(|pair| pair.iter().all(u8::is_ascii_uppercase)).count();
    part.len() <= 40 && is_camel(&letters, if digits == 0 { 2 } else { 3 }) && (digits == 0 || in_a_row <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_no_secrets() {
        for words in [
            "my-secret-name-2024",
            "accessTokenProvider",
            "AccessTokenProvider2",
            "us-east-1",
            "VALUE_OF_THIS",
            "node_modules/foo/index.js",
            "v2",
            "HTTPServerError",
        ] {
            assert!(is_wordy(words.as_bytes()), "{words}");
        }
        for random in ["aB3dE5fG7hI9", "f3a9c2e17b", "QmFzZTY0IGlzIGZ1bg", "550e8400-e29b-41d4"] {
            assert!(!is_wordy(random.as_bytes()), "{random}");
        }
    }

    #[test]
    fn entropy_counts_bits() {
        assert!(entropy(b"aaaaaaaa") < 0.01);
        assert!((entropy(b"abcdefgh") - 3.0).abs() < 0.01);
        assert!(entropy(b"").abs() < 0.01);
    }
}
