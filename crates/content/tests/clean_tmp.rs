#![allow(clippy::unwrap_used, missing_docs)]
use std::collections::BTreeMap;
use std::sync::Arc;
use content::clean::{Action, Categories, Cleaning, clean_text};
fn walk(dir: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for e in entries.flatten() {
        let p = e.path();
        let Ok(m) = std::fs::symlink_metadata(&p) else { continue };
        if m.is_dir() { walk(&p, files) } else if m.is_file() && m.len() < 3_000_000 { files.push(p) }
    }
}
#[test]
fn scan() {
    let cleaning = Cleaning::new(Action::Redact, Categories::ALL, Arc::default());
    let mut files = vec![];
    for d in std::env::var("DIRS").unwrap().split(':') { walk(std::path::Path::new(d), &mut files); }
    let (mut bytes, mut lines, mut counts) = (0u64, 0u64, BTreeMap::<String, u64>::new());
    for f in files {
        let Ok(text) = std::fs::read_to_string(&f) else { continue };
        bytes += text.len() as u64; lines += text.lines().count() as u64;
        let (_, findings) = clean_text(&text, &cleaning).unwrap();
        if findings.secrets.is_empty() { continue }
        for line in text.lines() {
            if line.len() > 5000 { continue }
            let (cleaned, f2) = clean_text(line, &cleaning).unwrap();
            for s in &f2.secrets { println!("{}: {} || {} || {}", s.kind, f.display(), line.trim().chars().take(160).collect::<String>(), cleaned.trim().chars().take(160).collect::<String>()); }
        }
        for s in findings.secrets { *counts.entry(s.kind).or_default() += s.count; }
    }
    println!("TOTAL {bytes} bytes {lines} lines {counts:?}");
}
