//! Rows that tests name.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::command::CommandError;

/// Rows of `digits` digits that are named in comments of the test code below `folder`.
pub(super) fn rows_named_below(folder: &Path, digits: usize) -> Result<BTreeSet<u32>, CommandError> {
    let unreadable = |path: &Path, error: &io::Error| {
        let path = path.display();
        CommandError::usage(format!("the sources cannot be read at {path}: {error}; run it in the workspace"))
    };
    let mut named = BTreeSet::new();
    for file in sources(folder).map_err(|error| unreadable(folder, &error))? {
        let text = fs::read_to_string(&file).map_err(|error| unreadable(&file, &error))?;
        named.extend(rows_in(test_code(&file, &text), digits));
    }
    Ok(named)
}

fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
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

/// The part of a source that is test code: all of a file of tests or of a suite, and the test module of others. A
/// comment elsewhere may say which row it is for; that is no test of it.
fn test_code<'a>(file: &Path, text: &'a str) -> &'a str {
    let named = |name: &str| file.components().any(|part| part.as_os_str() == OsStr::new(name));
    let of_suites = file.parent().is_some_and(|folder| folder.ends_with("suites/src/suites"));
    if named("tests") || named("tests.rs") || of_suites {
        return text;
    }
    text.find("#[cfg(test)]\nmod tests {").map_or("", |start| &text[start..])
}

/// Rows named in comments: `// P118`, `// P001, P002`, `// P001-P003`, `// P36..P39`.
fn rows_in(text: &str, digits: usize) -> impl Iterator<Item = u32> + '_ {
    text.lines().filter_map(comment).flat_map(move |comment| {
        let mut rows = vec![];
        let mut pending_range = None;
        for word in comment.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.' && c != '–') {
            for (position, part) in word.split(['-', '–', '.']).filter(|part| !part.is_empty()).enumerate() {
                let number = part.strip_prefix('P').filter(|number| number.len() == digits);
                let Some(row) = number.and_then(|number| number.parse::<u32>().ok()) else {
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

/// The comment at the end of a line. Two slashes inside quotation marks are none.
fn comment(line: &str) -> Option<&str> {
    let is_open = |at: usize| line[..at].matches('"').count() % 2 == 1;
    let start = line.match_indices("//").map(|(at, _)| at).find(|&at| !is_open(at))?;
    Some(&line[start + 2..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_from_comments_only() {
        let text = "// P118\n#[test] // P001, P002\nlet p = P003; // see P036-P038, P36 and FLINK-121\nurl(\"s3://P007\"); // P008\n";
        let rows = |digits| rows_in(text, digits).collect::<Vec<u32>>();
        assert_eq!(rows(3), [118, 1, 2, 36, 36, 37, 38, 8]);
        assert_eq!(rows(2), [36]);
    }

    #[test]
    fn only_test_code_is_read() {
        let text = "// P01\n#[cfg(test)]\nmod other;\n// P02\n#[cfg(test)]\nmod tests {\n// P03\n}\n";
        let rows = |file: &str| rows_in(test_code(Path::new(file), text), 2).collect::<Vec<_>>();
        assert_eq!(rows("coordinator/src/core/scc.rs"), [3]);
        assert_eq!(rows("coordinator/src/core/regions/tests.rs"), [1, 2, 3]);
        assert_eq!(rows("coordinator/tests/cluster/batch.rs"), [1, 2, 3]);
        assert_eq!(rows("suites/src/suites/batch.rs"), [1, 2, 3]);
        assert_eq!(rows("suites/src/jobs/gate.rs"), [3]);
    }
}
