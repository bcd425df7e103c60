//! How many secrets the detectors find in lines as logs, code and configuration have them, and how often they cry wolf.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

#[path = "corpus/secrets.rs"]
mod secrets;

use std::collections::BTreeMap;
use std::sync::Arc;

use content::clean::{Action, Categories, Category, Cleaning, Findings, clean_text};
use secrets::{Rng, fill, fill_noting};

const POSITIVE: &str = include_str!("corpus/positive.txt");
const NEGATIVE: &str = include_str!("corpus/negative.txt");
/// How often each template is filled.
const POSITIVE_ROUNDS: u64 = 6;
const NEGATIVE_ROUNDS: u64 = 18;

fn templates(file: &'static str) -> Vec<&'static str> {
    file.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect()
}

fn redact(line: &str) -> (String, Findings) {
    let cleaning = Cleaning::new(Action::Redact, Categories::ALL, Arc::default());
    clean_text(line, &cleaning).map(|(text, findings)| (text.into_owned(), findings)).unwrap()
}

#[derive(Default)]
struct Score {
    lines: u32,
    found: u32,
    false_alarms: u32,
}

#[test]
fn secrets_are_found_and_false_alarms_are_rare() {
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    let (positives, negatives) = (templates(POSITIVE), templates(NEGATIVE));
    let mut misses = Vec::new();
    for round in 0..POSITIVE_ROUNDS {
        let mut rng = Rng(1000 + round);
        for line in &positives {
            let (category, template) = line.split_once('|').unwrap();
            assert!(Category::from_name(category).is_some(), "{line}");
            let (text, values) = fill_noting(&template.replace("\\n", "\n"), &mut rng);
            let (cleaned, findings) = redact(&text);
            let right = findings.secrets.iter().any(|finding| finding.category == category);
            let gone = values.iter().all(|value| {
                value.lines().filter(|part| part.len() >= 8).all(|part| !cleaned.contains(part))
            });
            assert_eq!(redact(&cleaned).1.secrets, [], "what is clean stays as it is: {cleaned}");
            let score = scores.entry(category.to_owned()).or_default();
            score.lines += 1;
            score.found += u32::from(right && gone);
            if !(right && gone) {
                misses.push(format!("{template}  ->  {cleaned}"));
            }
        }
    }
    let (mut clean_lines, mut false_lines) = (0, 0);
    for round in 0..NEGATIVE_ROUNDS {
        let mut rng = Rng(2000 + round);
        for template in &negatives {
            let text = fill(&template.replace("\\n", "\n"), &mut rng);
            let (cleaned, findings) = redact(&text);
            clean_lines += 1;
            false_lines += u32::from(!findings.secrets.is_empty());
            for finding in &findings.secrets {
                scores.entry(finding.category.clone()).or_default().false_alarms += 1;
                misses.push(format!("false alarm ({}): {template}  ->  {cleaned}", finding.kind));
            }
        }
    }
    let (lines, found) =
        scores.values().fold((0, 0), |(lines, found), score| (lines + score.lines, found + score.found));
    println!("{lines} lines with a secret, {clean_lines} without");
    for (category, score) in &scores {
        println!(
            "{category:<20} found {:>4} of {:>4}, false alarms {}",
            score.found, score.lines, score.false_alarms
        );
    }
    let (recall, alarms) =
        (f64::from(found) / f64::from(lines), f64::from(false_lines) / f64::from(clean_lines));
    println!("recall {recall:.4}, false alarms {:.3} % of lines ({false_lines})", alarms * 100.0);
    misses.iter().for_each(|miss| println!("  {miss}"));
    assert!(lines >= 300 && clean_lines >= 3000, "the corpus is too small");
    assert!(recall >= 0.98, "recall {recall}");
    assert!(alarms <= 0.002, "false alarms {alarms}");
    assert!(scores.values().all(|score| f64::from(score.found) >= 0.95 * f64::from(score.lines)));
}

#[test]
fn a_lock_file_and_our_own_sources_hold_no_secret() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("../../Cargo.lock")];
    for folder in ["src", "src/clean", "src/clean/detect", "src/schema", "../jsonspan/src"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        files.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "rs")));
    }
    assert!(files.len() > 20);
    for file in files {
        if file.ends_with("cards.rs") {
            // Its tests have numbers that payment companies publish.
            continue;
        }
        let (_, findings) = redact(&std::fs::read_to_string(&file).unwrap());
        assert_eq!(findings.secrets, [], "{}", file.display());
    }
}
