//! Random schemas and answers: the verdict is that of a validator of trees, however the answer is spelled.

use content::schema::{OutputFault, OutputSchema};
use serde_json::{Value, json};

use super::{STRICT, check};

/// A small generator of numbers, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn name(&mut self) -> String {
        ["a", "b", "c", "é", "a b", "\"", "😀"][usize::try_from(self.throw(7)).unwrap()].to_owned()
    }

    fn value(&mut self, depth: u64) -> Value {
        match self.throw(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.throw(2) == 0),
            2 => json!(self.throw(6)),
            3 => json!(self.throw(6) as f64 / 2.0),
            4 => json!(-(i64::try_from(self.throw(3)).unwrap())),
            5 => json!(self.name()),
            6 => (0..self.throw(4)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object((0..self.throw(5)).map(|_| (self.name(), self.value(depth - 1))).collect()),
        }
    }

    fn schema(&mut self, depth: u64) -> Value {
        let mut map = serde_json::Map::new();
        for _ in 0..=self.throw(3) {
            let (keyword, value) = self.keyword(depth);
            map.insert(keyword.to_owned(), value);
        }
        Value::Object(map)
    }

    fn keyword(&mut self, depth: u64) -> (&'static str, Value) {
        let kinds = ["null", "boolean", "integer", "number", "string", "array", "object"];
        let number = self.throw(5);
        match self.throw(if depth == 0 { 16 } else { 29 }) {
            0 | 1 => ("type", json!(kinds[usize::try_from(self.throw(7)).unwrap()])),
            2 => ("type", json!(["object", kinds[usize::try_from(self.throw(6)).unwrap()]])),
            3 => ("enum", (0..3).map(|_| self.value(2)).collect()),
            4 => ("const", self.value(2)),
            5 => ("minimum", json!(number)),
            6 => ("exclusiveMaximum", json!(number as f64 / 2.0)),
            7 => ("multipleOf", json!((number + 1) as f64 / 2.0)),
            8 => ("minLength", json!(number)),
            9 => ("pattern", json!("^[a-cé😀]")),
            10 => ("minItems", json!(number)),
            11 => ("uniqueItems", json!(true)),
            12 => ("required", json!([self.name()])),
            13 => ("maxProperties", json!(number)),
            14 => ("dependentRequired", json!({self.name(): [self.name()]})),
            15 => ("$ref", json!("#/$defs/x")),
            16 | 17 => (
                "properties",
                json!({self.name(): self.schema(depth - 1), self.name(): self.schema(depth - 1)}),
            ),
            18 => ("additionalProperties", self.schema(depth - 1)),
            19 => ("patternProperties", json!({"^[ab]": self.schema(depth - 1)})),
            20 => ("propertyNames", self.schema(depth - 1)),
            21 => ("items", self.schema(depth - 1)),
            22 => ("prefixItems", json!([self.schema(depth - 1), true])),
            23 => ("contains", self.schema(depth - 1)),
            24 => ("allOf", json!([self.schema(depth - 1), self.schema(depth - 1)])),
            25 => ("anyOf", json!([self.schema(depth - 1), self.schema(depth - 1)])),
            26 => ("oneOf", json!([self.schema(depth - 1), self.schema(depth - 1)])),
            27 => ("not", self.schema(depth - 1)),
            _ => ("unevaluatedProperties", json!(false)),
        }
    }
}

/// The same text with every string escaped and numbers spelled in another way.
fn respelled(value: &Value, dice: &mut Dice) -> String {
    let string = |text: &str| {
        let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
        format!("\"{units}\"")
    };
    match value {
        Value::String(text) => string(text),
        Value::Number(number) => match (number.to_string(), dice.throw(3)) {
            (text, 0) => text,
            (text, 1) => format!("{text}e0"),
            (text, _) if text.contains('.') => format!("{text}00E+00"),
            (text, _) => format!("{text}.000"),
        },
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| respelled(item, dice)).collect();
            format!("[ {} ]", items.join(" , "))
        }
        Value::Object(map) => {
            let members: Vec<String> = map
                .iter()
                .map(|(name, value)| format!("{}:{}", string(name), respelled(value, dice)))
                .collect();
            format!("{{{}}}", members.join(",\n"))
        }
        other => other.to_string(),
    }
}

#[test]
fn verdicts_are_those_of_a_validator_of_trees_for_random_schemas_and_answers() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_240_917);
    eprintln!("seed {seed}");
    let mut dice = Dice(seed);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..1500 {
        let mut schema = dice.schema(3);
        schema["$defs"] = json!({"x": dice.schema(1)});
        let Ok(trees) = jsonschema::options().offline().should_validate_formats(false).build(&schema) else {
            continue;
        };
        let ours = OutputSchema::compile(&schema.to_string());
        assert_eq!(ours.problem(), None, "{schema}");
        for _ in 0..8 {
            let value = dice.value(3);
            let wanted = trees.is_valid(&value);
            for structured in [value.to_string(), respelled(&value, &mut dice)] {
                // A null counts as no structured content.
                if structured == "null" {
                    continue;
                }
                let checked = check(&ours, &structured, &STRICT);
                assert_eq!(checked.is_ok(), wanted, "{schema}\n{structured}\n{checked:?}");
                if let Err(fault) = checked {
                    assert!(matches!(fault, OutputFault::Mismatch(Some(_))), "{fault:?}");
                }
            }
            if wanted { good += 1 } else { bad += 1 }
        }
    }
    assert!(good > 1000 && bad > 1000, "{good} good and {bad} bad ones tell nothing");
}
