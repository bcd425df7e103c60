//! Numbers of payment cards: digits of a known prefix and length whose check digit is right.

use std::ops::Range;

use super::super::view::View;

/// Fewest and most digits.
const DIGITS: (usize, usize) = (13, 19);

/// Reports each number that begins in `range`.
pub(super) fn scan(view: &View, range: Range<usize>, found: &mut impl FnMut(Range<usize>)) {
    let (text, limit) = (view.text(), range.end);
    let mut at = range.start;
    // A number has 13 bytes or more, all of them of its kind: looking at every 13th byte, none is missed.
    while at < limit {
        let Some(last) = text.get(at..at + DIGITS.0) else { return };
        match last.iter().rposition(|&byte| !is_part(byte)) {
            Some(other) => at += other + 1,
            None => {
                let end =
                    at + text.get(at..).unwrap_or_default().iter().take_while(|byte| is_part(**byte)).count();
                numbers(text, at..end, limit, found);
                at = end;
            }
        }
    }
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b' ' | b'-')
}

/// The numbers in a run of digits, blanks and hyphens.
fn numbers(text: &[u8], run: Range<usize>, limit: usize, found: &mut impl FnMut(Range<usize>)) {
    let mut at = run.start;
    while at < run.end.min(limit) {
        let starts = text.get(at).is_some_and(u8::is_ascii_digit)
            && !at.checked_sub(1).and_then(|before| text.get(before)).is_some_and(u8::is_ascii_digit);
        if starts && let Some(end) = number(text, at) {
            found(at..end);
            at = end;
        } else {
            at += 1;
        }
    }
}

/// The end of the number that begins at `at`.
fn number(text: &[u8], at: usize) -> Option<usize> {
    let mut digits = [0_u8; DIGITS.1];
    let (mut count, mut end, mut groups, mut separator) = (0, at, [0_usize; 5], None);
    let mut group = 0;
    loop {
        match text.get(end) {
            Some(digit) if digit.is_ascii_digit() => {
                *digits.get_mut(count)? = digit - b'0';
                *groups.get_mut(group)? += 1;
                count += 1;
            }
            Some(&byte @ (b' ' | b'-'))
                if separator.is_none_or(|known| known == byte)
                    && text.get(end + 1).is_some_and(u8::is_ascii_digit) =>
            {
                // What is complete may be followed by another number after the same sign.
                let is_complete = separator.is_none() || groups.get(..=group).is_some_and(is_grouped);
                if is_complete && count >= DIGITS.0 && digits.get(..count).is_some_and(luhn) {
                    break;
                }
                separator = Some(byte);
                group += 1;
            }
            _ => break,
        }
        end += 1;
    }
    let digits = digits.get(..count)?;
    let grouped = match separator {
        None => true,
        Some(_) => is_grouped(groups.get(..=group)?),
    };
    (grouped
        && (count < 19 || separator.is_some())
        && stands_alone(text, at, end, separator)
        && is_brand(digits)
        && luhn(digits))
    .then_some(end)
}

fn is_grouped(groups: &[usize]) -> bool {
    matches!(groups, [4, 4, 4, 4] | [4, 4, 4, 4, 3] | [4, 6, 5] | [4, 6, 4])
}

/// True if the number is neither a part of a longer word nor one group of a longer list.
fn stands_alone(text: &[u8], start: usize, end: usize, separator: Option<u8>) -> bool {
    let before = |back: usize| start.checked_sub(back).and_then(|at| text.get(at)).copied().unwrap_or(b' ');
    let after = |on: usize| text.get(end + on).copied().unwrap_or(b' ');
    let joins = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'+' | b'%');
    let ends_sentence = after(0) == b'.' && !after(1).is_ascii_alphanumeric();
    let in_list = if separator == Some(b' ') {
        let group_before = before(1) == b' ' && (2..6).all(|back| before(back).is_ascii_digit());
        group_before || (after(0) == b' ' && (1..5).all(|on| after(on).is_ascii_digit()))
    } else {
        let goes_on = |near: u8, far: u8| near == b'-' && far.is_ascii_alphanumeric();
        goes_on(before(1), before(2)) || goes_on(after(0), after(1))
    };
    !joins(before(1)) && (!joins(after(0)) || ends_sentence) && !in_list
}

/// Prefix and length of a brand.
fn is_brand(digits: &[u8]) -> bool {
    let prefix =
        |len: usize| digits.iter().take(len).fold(0_u32, |number, &digit| number * 10 + u32::from(digit));
    match digits.len() {
        16 => {
            matches!(prefix(1), 4)
                || matches!(prefix(2), 51..=55 | 62 | 65)
                || matches!(prefix(3), 644..=649)
                || matches!(prefix(4), 2221..=2720 | 3528..=3589 | 6011)
        }
        15 => matches!(prefix(2), 34 | 37),
        14 => matches!(prefix(2), 36 | 38 | 39) || matches!(prefix(3), 300..=305),
        13 | 19 => prefix(1) == 4,
        _ => false,
    }
}

fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, &digit)| {
            let digit = u32::from(digit);
            let doubled = digit * 2;
            if place % 2 == 0 {
                digit
            } else if doubled > 9 {
                doubled - 9
            } else {
                doubled
            }
        })
        .sum();
    sum > 0 && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut view = View::default();
        view.add_plain(text.as_bytes(), 0);
        let mut all = Vec::new();
        scan(&view, 0..text.len(), &mut |range| all.push(text[range].to_owned()));
        all
    }

    #[test]
    fn cards_are_found_however_they_are_written() {
        // Numbers that payment companies publish for tests.
        for card in [
            "4111111111111111",
            "4111 1111 1111 1111",
            "5500-0000-0000-0004",
            "340000000000009",
            "3400 000000 00009",
            "6011000000000004",
            "30000000000004",
            "3530111333300000",
        ] {
            for text in [
                card.to_owned(),
                format!("card: {card}."),
                format!("x={card},y"),
                format!("12 {card} 12/27"),
                format!("a\n{card}\n"),
            ] {
                assert_eq!(found(&text), [card], "{text}");
            }
        }
    }

    #[test]
    fn other_numbers_are_not() {
        for text in [
            "4111111111111112",
            "1111111111111117",
            "id-4111111111111111",
            "4111111111111111ab",
            "0.4111111111111111",
            "4111 1111 1111 1111 1111",
            "4111-1111-1111-1111-1111",
            "1234 4111 1111 1111 1111",
            "41 11 11 11 11 11 11 11",
            "4111 1111-1111 1111",
            "2024-01-02 10:00:00",
            "550e8400-e29b-41d4-a716-446655440000",
            "1700000000000",
            "0000000000000000",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }
}
