//! Texts as words: identifiers are split where a person would split them.

use crate::text::prefix;

/// Longest word, in bytes.
const MAX_WORD: usize = 64;

/// The words of a text: `getUserById` gives get, user, by, id and getuserbyid; `sha256` gives sha, 256 and sha256. Plurals
/// count as their singular. Scripts without spaces give pairs of characters.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        run_words(run, &mut words);
    }
    words
}

/// The words of a name, with the name itself in lower case, as it stands and without its separators.
pub(crate) fn name_words(name: &str) -> Vec<String> {
    let mut all = words(name);
    for whole in [word(name.trim()), squashed(name)] {
        if !whole.is_empty() && !all.contains(&whole) {
            all.push(whole);
        }
    }
    all
}

/// A name in lower case without anything that is not a letter or a digit: `get_user`, `getUser` and `Get User` are equal.
pub(crate) fn squashed(name: &str) -> String {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    prefix(&letters, MAX_WORD).to_owned()
}

fn run_words(run: &str, words: &mut Vec<String>) {
    let parts = split(run);
    for part in &parts {
        if part.chars().next().is_some_and(is_unspaced) {
            pairs(part, words);
        } else {
            words.push(singular(word(part)));
        }
    }
    if parts.len() > 1 && !run.chars().any(is_unspaced) {
        words.push(singular(word(run)));
    }
}

fn word(text: &str) -> String {
    prefix(&text.to_lowercase(), MAX_WORD).to_owned()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Upper,
    Lower,
    Digit,
    Unspaced,
}

fn kind(c: char) -> Kind {
    if is_unspaced(c) {
        Kind::Unspaced
    } else if c.is_numeric() {
        Kind::Digit
    } else if c.is_uppercase() {
        Kind::Upper
    } else {
        Kind::Lower
    }
}

/// Splits `HTTPServer2` into HTTP, Server and 2.
fn split(run: &str) -> Vec<&str> {
    let chars: Vec<(usize, Kind)> = run.char_indices().map(|(at, c)| (at, kind(c))).collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for (place, pair) in chars.windows(2).enumerate() {
        let (before, (at, after)) = (pair[0].1, pair[1]);
        let next = chars.get(place + 2).map(|(_, kind)| *kind);
        let boundary = match (before, after) {
            (Kind::Upper, Kind::Upper) => next == Some(Kind::Lower),
            (Kind::Upper, Kind::Lower) => false,
            (before, after) => before != after,
        };
        if boundary {
            parts.push(&run[start..at]);
            start = at;
        }
    }
    parts.push(&run[start..]);
    parts
}

/// Han, kana, Thai and their like, which put no spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c), 0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x3400..=0x9fff
        | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

fn pairs(part: &str, words: &mut Vec<String>) {
    let chars: Vec<char> = part.chars().collect();
    if let [only] = chars.as_slice() {
        words.push(only.to_string());
    }
    words.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
}

/// English plurals, as far as they go without a dictionary. Wrong now and then, but the same in query and text.
fn singular(mut word: String) -> String {
    if word.len() < 4 || !word.is_ascii() || !word.ends_with('s') {
        return word;
    }
    let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    if ends(&["ss", "us", "is"]) {
        return word;
    }
    if word.len() > 4 && word.ends_with("ies") {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if ends(&["sses", "xes", "zzes", "shes", "tches", "rches", "nches"]) {
        word.truncate(word.len() - 2);
    } else {
        word.truncate(word.len() - 1);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_split_where_a_person_would() {
        for (text, expected) in [
            ("getUserById", "get user by id getuserbyid"),
            ("get_user", "get user"),
            ("list-open-issues", "list open issue"),
            ("HTTPServer2", "http server 2 httpserver2"),
            ("parseJSONFile", "parse json file parsejsonfile"),
            ("sha256", "sha 256 sha256"),
            ("files/read.v2", "file read v 2 v2"),
            ("ID", "id"),
            ("GitHub API", "git hub github api"),
            ("Größe", "größe"),
            ("文件搜索", "文件 件搜 搜索"),
            ("読", "読"),
            ("a文b", "a 文 b"),
            ("", ""),
            ("--- !!", ""),
        ] {
            assert_eq!(words(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn plurals_meet_their_singular() {
        for (many, one) in [
            ("files", "file"),
            ("repositories", "repository"),
            ("branches", "branch"),
            ("caches", "cache"),
            ("boxes", "box"),
            ("databases", "database"),
            ("classes", "class"),
            ("sizes", "size"),
            ("status", "status"),
            ("analysis", "analysis"),
            ("process", "process"),
        ] {
            assert_eq!(words(many), words(one), "{many}");
        }
    }

    #[test]
    fn a_name_is_also_a_word_as_a_whole() {
        assert_eq!(name_words("get_user"), ["get", "user", "get_user", "getuser"]);
        assert_eq!(name_words("getUser"), ["get", "user", "getuser"]);
        assert_eq!(name_words("read"), ["read"]);
        assert_eq!(squashed("Get User"), squashed("get-user"));
    }

    #[test]
    fn long_words_are_cut_on_a_character() {
        let long = words(&"é".repeat(500));
        assert_eq!(long.len(), 1);
        assert_eq!(long[0].len(), 64);
    }
}
