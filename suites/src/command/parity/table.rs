//! The table of rows that have no test.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::command::CommandError;

/// Why a row has no test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It tests something that does not exist here.
    NotApplicable,
    /// What it tests is to be built; by this issue, if one is filed.
    Later(Option<u32>),
}

impl Verdict {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "not-applicable" => Some(Self::NotApplicable),
            "later" => Some(Self::Later(None)),
            _ => Some(Self::Later(Some(text.strip_prefix("later:")?.parse().ok()?))),
        }
    }
}

/// Reads a table: `row`, verdict and reason, separated by tabs; lines that begin with `#` are comments.
pub(super) fn read(path: &Path) -> Result<BTreeMap<u32, Verdict>, CommandError> {
    let named = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        CommandError::usage(format!("the table {named} cannot be read: {error}; run it in the workspace"))
    })?;
    parse(&text).map_err(|problem| CommandError::usage(format!("{named}: {problem}")))
}

fn parse(text: &str) -> Result<BTreeMap<u32, Verdict>, String> {
    let mut rows = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let [row, verdict, reason] = fields[..] else {
            return Err(format!("line {number} has {} fields; it needs row, verdict and reason", fields.len()));
        };
        let parsed = row.strip_prefix('P').and_then(|digits| digits.parse::<u32>().ok());
        let id = parsed.ok_or_else(|| format!("line {number}: `{row}` is no row; write it as P001"))?;
        let verdict = Verdict::parse(verdict).ok_or_else(|| {
            format!("line {number}: `{verdict}` is no verdict; use `not-applicable`, `later` or `later:<issue number>`")
        })?;
        if !reason.ends_with('.') {
            return Err(format!("line {number}: the reason of {row} is no sentence"));
        }
        if rows.insert(id, verdict).is_some() {
            return Err(format!("line {number}: {row} is there twice"));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_line_by_line() {
        let text =
            "# row\tverdict\treason\nP003\tnot-applicable\tNone.\n\nP012\tlater:6\tSoon.\nP013\tlater\tSome day.\n";
        let expected = [(3, Verdict::NotApplicable), (12, Verdict::Later(Some(6))), (13, Verdict::Later(None))];
        assert_eq!(parse(text), Ok(BTreeMap::from(expected)));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (line, problem) in [
            ("P003\tlater", "line 1 has 2 fields; it needs row, verdict and reason"),
            ("3\tlater\tX.", "line 1: `3` is no row; write it as P001"),
            (
                "P003\tnever\tX.",
                "line 1: `never` is no verdict; use `not-applicable`, `later` or `later:<issue number>`",
            ),
            (
                "P003\tlater:x\tX.",
                "line 1: `later:x` is no verdict; use `not-applicable`, `later` or `later:<issue number>`",
            ),
            ("P003\tlater\tdone", "line 1: the reason of P003 is no sentence"),
            ("P003\tlater\tX.\nP003\tlater\tX.", "line 2: P003 is there twice"),
        ] {
            assert_eq!(parse(line), Err(problem.to_owned()));
        }
    }
}
