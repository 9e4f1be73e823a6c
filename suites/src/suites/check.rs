//! Outputs of the test jobs, compared with what they must be, to the record.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use stormproof::plan::OutputFacts;

use crate::jobs::stream::{PARALLELISM, Shape};
use crate::jobs::text::{WordCounter, text_files};

/// Examples that are kept of lost, doubled and alien records.
const EXAMPLES: usize = 5;

/// Compares multisets of lines.
fn compare(expected: &BTreeMap<String, u64>, seen: &BTreeMap<String, u64>) -> OutputFacts {
    let mut facts = OutputFacts { expected: expected.values().sum(), ..OutputFacts::default() };
    let mut example = |what: &str, line: &str| {
        if facts.examples.len() < EXAMPLES {
            facts.examples.push(format!("{what}: {line}"));
        }
    };
    for (line, &wanted) in expected {
        let found = seen.get(line).copied().unwrap_or(0);
        facts.seen += found.min(wanted);
        if found < wanted {
            facts.lost += wanted - found;
            example("lost", line);
        } else if found > wanted {
            facts.doubled += found - wanted;
            example("doubled", line);
        }
    }
    for (line, count) in seen.iter().filter(|(line, _)| !expected.contains_key(*line)) {
        facts.alien += count;
        example("alien", line);
    }
    facts
}

/// Counts the lines of all files of `folder` whose name passes `filter`.
fn lines(folder: &Path, filter: impl Fn(&str) -> bool) -> io::Result<BTreeMap<String, u64>> {
    let mut lines = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if filter(&entry.file_name().to_string_lossy()) {
            for line in fs::read_to_string(entry.path())?.lines() {
                *lines.entry(line.to_owned()).or_insert(0) += 1;
            }
        }
    }
    Ok(lines)
}

/// What the word count of `input` must come to, counted here, in one thread.
///
/// # Errors
/// When the input cannot be read.
pub(super) fn expected_words(input: &Path) -> io::Result<BTreeMap<String, u64>> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for file in text_files(input)? {
        let words = WordCounter::open(&file)?.count()?;
        words.into_iter().for_each(|(word, count)| *counts.entry(word).or_default() += count);
    }
    Ok(counts.into_iter().map(|(word, count)| (format!("{word}\t{count}"), 1)).collect())
}

/// The word count's output against what it must be.
///
/// # Errors
/// When the output cannot be read.
pub(super) fn word_count(expected: &BTreeMap<String, u64>, output: &Path) -> io::Result<OutputFacts> {
    Ok(compare(expected, &lines(output, |name| name.starts_with("part-") && !name.ends_with(".tmp"))?))
}

/// The streaming job's output against what its parameters make it emit.
///
/// # Errors
/// When the output cannot be read.
pub(super) fn stream(shape: Shape, output: &Path) -> io::Result<OutputFacts> {
    let mut expected = BTreeMap::new();
    let mut per_key: BTreeMap<u64, u64> = BTreeMap::new();
    for subtask in 0..PARALLELISM {
        for n in 0..shape.records {
            expected.insert(format!("{subtask}\t{}", n * n), 1);
            *per_key.entry(n % shape.keys).or_default() += 1;
        }
    }
    for (key, count) in per_key {
        expected.extend((1..=count).map(|n| (format!("key-{key}\t{n}"), 1)));
    }
    Ok(compare(&expected, &lines(output, |name| name.ends_with(".part"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_doubled_and_alien_lines_are_told_apart() {
        let expected = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 1), ("c".to_owned(), 2)]);
        let seen = BTreeMap::from([("b".to_owned(), 3), ("c".to_owned(), 1), ("d".to_owned(), 4)]);
        let facts = compare(&expected, &seen);
        assert_eq!((facts.expected, facts.seen, facts.lost, facts.doubled, facts.alien), (4, 2, 2, 2, 4));
        assert_eq!(facts.examples, ["lost: a", "doubled: b", "lost: c", "alien: d"]);
    }
}
