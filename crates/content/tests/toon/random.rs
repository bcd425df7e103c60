//! Random JSON: values that tables are made of, strings that look like something else, and many spellings of each.

use super::value::Json;

/// A small generator of numbers; the same seed gives the same documents.
pub struct Random(u64);

const STRINGS: &[&str] = &[
    "",
    " ",
    "  ",
    " x",
    "x ",
    "a b",
    "true",
    "false",
    "null",
    "True",
    "42",
    "05",
    "-3.14",
    "1e5",
    "1E+5",
    "+1",
    ".5",
    "1.",
    "-",
    "- a",
    "--",
    "#",
    "#h",
    "[3]: x",
    "[]",
    "{}",
    "a,b",
    "a|b",
    "a\tb",
    "a:b",
    ":",
    "\"",
    "\\",
    "a\"b",
    "a\\b",
    "\n",
    "a\nb",
    "\r",
    "\u{0}",
    "\u{1f}",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{a0}x",
    "x\u{2028}",
    "\u{feff}",
    "\u{fffd}",
    "é",
    "你好",
    "👋🏽",
    "a  b",
    "key: v",
    "NaN",
    "Infinity",
    "0x10",
    "1_000",
    "٣",
    "½",
    "-0",
    "0",
    "x\u{3000}",
    "]",
    "}",
    "\"quoted\"",
    "http://a.b/c?d=e&f",
];

const KEYS: &[&str] = &[
    "id",
    "name",
    "a",
    "b",
    "c",
    "_x",
    "a.b",
    ".",
    "..",
    ".a",
    "a.",
    "",
    " ",
    "a b",
    "a-b",
    "1",
    "1a",
    "é",
    "a:b",
    "a,b",
    "a|b",
    "a\tb",
    "[0]",
    "{x}",
    "\"",
    "\\",
    "\n",
    "#",
    "-",
    "true",
    "null",
    "__proto__",
    "constructor",
    "\u{0}",
    "\u{feff}",
    "👋",
    "toString",
];

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn value(&mut self, depth: usize) -> Json {
        if depth == 0 {
            return self.plain();
        }
        match self.below(10) {
            0 | 1 => self.plain(),
            2 | 3 => self.object(depth),
            4 => Json::Array(self.several(5, |random| random.value(depth - 1))),
            5 => Json::Array(self.several(6, Random::plain)),
            6 | 7 => self.table(),
            8 => self.keyed_table(),
            _ => Json::Array(self.several(3, |random| random.object(depth))),
        }
    }

    fn several(&mut self, most: usize, mut make: impl FnMut(&mut Random) -> Json) -> Vec<Json> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }

    fn object(&mut self, depth: usize) -> Json {
        let keys = self.keys(5);
        Json::Object(keys.into_iter().map(|key| (key, self.value(depth - 1))).collect())
    }

    /// Rows of the same columns, in the same order or not, some of them objects; now and then a row that spoils it.
    fn table(&mut self) -> Json {
        let pattern = self.pattern(3);
        let (shuffled, spoilt) = (self.chance(40), self.chance(25));
        let mut rows: Vec<_> = (0..=self.below(9)).map(|_| self.row(&pattern, shuffled)).collect();
        if spoilt {
            let at = self.below(rows.len());
            rows[at] = self.value(1);
        }
        Json::Array(rows)
    }

    fn keyed_table(&mut self) -> Json {
        let pattern = self.pattern(2);
        let (shuffled, spoilt) = (self.chance(40), self.chance(25));
        let keys = self.keys(6);
        let mut rows: Vec<_> = keys.into_iter().map(|key| (key, self.row(&pattern, shuffled))).collect();
        if spoilt && !rows.is_empty() {
            let at = self.below(rows.len());
            rows[at].1 = self.value(1);
        }
        Json::Object(rows)
    }

    fn pattern(&mut self, depth: usize) -> Json {
        let keys = self.keys(4);
        let column = |random: &mut Random| {
            if depth > 0 && random.chance(25) { random.pattern(depth - 1) } else { Json::Null }
        };
        Json::Object(keys.into_iter().map(|key| (key, column(self))).collect())
    }

    fn row(&mut self, pattern: &Json, shuffled: bool) -> Json {
        let Json::Object(fields) = pattern else { return self.plain() };
        let mut row: Vec<_> =
            fields.iter().map(|(key, inner)| (key.clone(), self.row(inner, shuffled))).collect();
        if shuffled && !row.is_empty() {
            let by = self.below(row.len());
            row.rotate_left(by);
        }
        Json::Object(row)
    }

    fn keys(&mut self, most: usize) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for _ in 0..self.below(most + 1) {
            let key = if self.chance(60) { format!("k{}", self.below(8)) } else { self.pick(KEYS) };
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    fn one_of<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[self.below(N)]
    }

    fn pick(&mut self, from: &[&str]) -> String {
        from[self.below(from.len())].to_owned()
    }

    fn plain(&mut self) -> Json {
        match self.below(8) {
            0 => Json::Null,
            1 => Json::Bool(self.chance(50)),
            2..=4 => Json::Number(self.number()),
            5 => Json::Text(self.pick(STRINGS)),
            6 => Json::Text(format!("{}{}", self.pick(STRINGS), self.pick(STRINGS))),
            _ => Json::Text(format!("word{}", self.below(1000))),
        }
    }

    /// Any spelling of at most fifteen digits.
    fn number(&mut self) -> String {
        let mut number = String::new();
        if self.chance(30) {
            number.push('-');
        }
        let limit = self.one_of([1, 10, 1000, 1_000_000_000]);
        number.push_str(&self.below(limit).to_string());
        if self.chance(40) {
            number.push('.');
            number.push_str(&format!("{:0width$}", self.below(1000), width = 1 + self.below(5)));
        }
        if self.chance(30) {
            number.push(if self.chance(50) { 'e' } else { 'E' });
            number.push_str(self.one_of(["", "+", "-"]));
            let limit = self.one_of([3, 30, 250]);
            number.push_str(&self.below(limit).to_string());
        }
        number
    }

    /// Spells a value as JSON, with blanks and escapes where there may be some.
    pub fn spell(&mut self, value: &Json, out: &mut String) {
        self.blank(out);
        match value {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) => out.push_str(number),
            Json::Text(text) => self.spell_text(text, out),
            Json::Array(all) => {
                out.push('[');
                for (at, element) in all.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    self.spell(element, out);
                }
                self.blank(out);
                out.push(']');
            }
            Json::Object(all) => {
                out.push('{');
                for (at, (key, element)) in all.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    self.blank(out);
                    self.spell_text(key, out);
                    self.blank(out);
                    out.push(':');
                    self.spell(element, out);
                }
                self.blank(out);
                out.push('}');
            }
        }
        self.blank(out);
    }

    fn blank(&mut self, out: &mut String) {
        if self.chance(10) {
            out.push_str(self.one_of([" ", "\n", "\t", "\r\n  "]));
        }
    }

    fn spell_text(&mut self, text: &str, out: &mut String) {
        out.push('"');
        for character in text.chars() {
            match character {
                '"' | '\\' => out.extend(['\\', character]),
                '\n' if self.chance(50) => out.push_str("\\n"),
                '\t' if self.chance(50) => out.push_str("\\t"),
                '/' if self.chance(50) => out.push_str("\\/"),
                _ if character < ' ' || self.chance(5) => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                _ => out.push(character),
            }
        }
        out.push('"');
    }
}
