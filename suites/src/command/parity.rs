//! Which rows of the reference's parity lists have a test.
//!
//! A test names the rows it satisfies in a comment (`// P118`); rows of the chaos list are told from rows of the
//! recovery list by the crate they stand in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::CommandError;
use super::output::say;

/// A parity list of the reference.
struct List {
    name: &'static str,
    /// Rows it has.
    rows: u32,
    /// Folders of the workspace whose tests may name them.
    folders: &'static [&'static str],
}

const LISTS: [List; 2] = [
    List { name: "recovery (Flink)", rows: 324, folders: &["coordinator", "harness", "suites"] },
    List { name: "chaos (Toxiproxy)", rows: 79, folders: &["chaos"] },
];

/// Prints, for each list, how many rows have a test and which have none.
pub(super) fn print(as_json: bool) -> Result<u8, CommandError> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new("."));
    let mut answers = vec![];
    for list in &LISTS {
        let mut named = BTreeSet::new();
        for folder in list.folders {
            for file in sources(&workspace.join(folder)).map_err(|error| unreadable(workspace, &error))? {
                let text = fs::read_to_string(&file).map_err(|error| unreadable(&file, &error))?;
                named.extend(rows_in(&text).filter(|row| (1..=list.rows).contains(row)));
            }
        }
        answers.push((list, named));
    }
    if as_json {
        let lists: Vec<_> = answers
            .iter()
            .map(|(list, named)| json!({ "list": list.name, "rows": list.rows, "with-a-test": named }))
            .collect();
        say(json!({ "parity": lists }));
        return Ok(0);
    }
    for (list, named) in &answers {
        let missing: Vec<u32> = (1..=list.rows).filter(|row| !named.contains(row)).collect();
        say(format_args!("{}: {} of {} rows have a test", list.name, named.len(), list.rows));
        say(format_args!("  without: {}", ranges(&missing)));
    }
    Ok(0)
}

fn unreadable(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::usage(format!("the sources cannot be read at {}: {error}; run it in the workspace", path.display()))
}

fn sources(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = vec![];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

/// Rows named in comments: `// P118`, `// P001, P002`, `// P36 P37`, `// P001-P003`, `// P1..P5`.
fn rows_in(text: &str) -> impl Iterator<Item = u32> + '_ {
    text.lines().filter_map(|line| line.split_once("//")).flat_map(|(_, comment)| {
        let mut rows = vec![];
        let mut pending_range = None;
        for word in comment.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.' && c != '–') {
            for (position, part) in word.split(['-', '–', '.']).filter(|part| !part.is_empty()).enumerate() {
                let Some(row) = part.strip_prefix('P').and_then(|digits| digits.parse::<u32>().ok()) else {
                    pending_range = None;
                    continue;
                };
                match pending_range.filter(|_| position > 0) {
                    Some(first) => rows.extend(first..=row),
                    None => rows.push(row),
                }
                pending_range = Some(row);
            }
        }
        rows
    })
}

/// `1-3, 7`.
fn ranges(rows: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = vec![];
    for &row in rows {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == row => *last = row,
            _ => parts.push((row, row)),
        }
    }
    let text = |(first, last): (u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    if parts.is_empty() { "none".to_owned() } else { parts.into_iter().map(text).collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_from_comments_only() {
        let text = "// P118\n#[test] // P001, P002\nlet p = P3; // see P36-P38 and FLINK-12131\n";
        let rows: Vec<u32> = rows_in(text).collect();
        assert_eq!(rows, [118, 1, 2, 36, 36, 37, 38]);
    }

    #[test]
    fn rows_print_as_ranges() {
        assert_eq!(ranges(&[1, 2, 3, 7]), "1-3, 7");
        assert_eq!(ranges(&[]), "none");
    }
}
