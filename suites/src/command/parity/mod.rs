//! What became of each row of the reference's parity lists: a test, or a line that says why there is none.
//!
//! A test names the rows it satisfies in a comment (`// P118`); only test code counts. Rows of the recovery list that
//! have no test stand in `coordinator/parity.tsv` with a reason. Rows of the chaos list are told from rows of the
//! recovery list by the crate they stand in.

mod scan;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use self::table::Verdict;
use super::CommandError;
use super::output::say;

/// Folders of the workspace whose tests may name rows.
const CRATES: [&str; 4] = ["chaos", "coordinator", "harness", "suites"];

/// A parity list of the reference.
struct List {
    name: &'static str,
    /// Numbers between and after these are no rows.
    sections: &'static [Section],
    /// How many digits the numbers of its rows have: that tells them from those of the other list.
    digits: usize,
    /// Where the rows without a test are explained.
    table: Option<&'static str>,
}

/// A section of the reference, with its first and its last row.
struct Section {
    number: &'static str,
    title: &'static str,
    rows: (u32, u32),
}

const fn section(number: &'static str, title: &'static str, rows: (u32, u32)) -> Section {
    Section { number, title, rows }
}

const RECOVERY: List = List {
    name: "recovery (Flink)",
    sections: &[
        section("8.1", "regions and restart sets", (1, 38)),
        section("8.2", "restart strategies and failure handling", (40, 66)),
        section("8.3", "scheduler failover", (70, 124)),
        section("8.4", "execution graph and attempts", (130, 153)),
        section("8.5", "partitions", (160, 196)),
        section("8.6", "JobMaster, TaskManager loss, input splits", (200, 226)),
        section("8.7", "leadership, Dispatcher, INITIALIZING", (230, 277)),
        section("8.8", "checkpoint store and coordinator", (280, 324)),
        section("8.9", "batch progress recovery", (330, 340)),
        section("8.10", "speculative execution", (345, 349)),
        section("8.11", "end-to-end scripts and Jepsen", (350, 356)),
    ],
    digits: 3,
    table: Some("coordinator/parity.tsv"),
};

const CHAOS: List = List {
    name: "chaos (Toxiproxy)",
    sections: &[section("1.8", "behaviours to reproduce", (1, 79))],
    digits: 2,
    table: None,
};

/// What became of the rows of a list.
struct Account {
    list: &'static List,
    tested: BTreeSet<u32>,
    explained: BTreeMap<u32, Verdict>,
}

/// Numbers of one section, or of a whole list.
struct Counts {
    rows: usize,
    tested: usize,
    not_applicable: usize,
    later: usize,
    unaccounted: Vec<u32>,
}

impl Account {
    /// Reads the tests and the table of the workspace.
    fn of(list: &'static List, workspace: &Path) -> Result<Self, CommandError> {
        let mut tested = BTreeSet::new();
        for folder in CRATES {
            tested.extend(scan::rows_named_below(&workspace.join(folder), list.digits)?);
        }
        let explained = match list.table {
            Some(path) => table::read(&workspace.join(path))?,
            None => BTreeMap::new(),
        };
        Ok(Self { list, tested, explained })
    }

    fn counts(&self, sections: &[Section]) -> Counts {
        let rows: Vec<u32> = sections.iter().flat_map(|section| section.rows.0..=section.rows.1).collect();
        let with = |verdict: Verdict| rows.iter().filter(|row| self.explained.get(row) == Some(&verdict)).count();
        Counts {
            rows: rows.len(),
            tested: rows.iter().filter(|row| self.tested.contains(row)).count(),
            not_applicable: with(Verdict::NotApplicable),
            later: rows.iter().filter(|row| matches!(self.explained.get(row), Some(Verdict::Later(_)))).count(),
            unaccounted: rows
                .iter()
                .copied()
                .filter(|row| !self.tested.contains(row) && !self.explained.contains_key(row))
                .collect(),
        }
    }

    /// Rows that a test satisfies although the table says that there is none.
    fn contradictions(&self) -> Vec<u32> {
        self.explained.keys().copied().filter(|row| self.tested.contains(row)).collect()
    }

    /// Numbers that tests or the table name although the list has no such row.
    fn unknown(&self) -> Vec<u32> {
        let is_row = |row: u32| self.list.sections.iter().any(|it| (it.rows.0..=it.rows.1).contains(&row));
        let named: BTreeSet<u32> = self.tested.iter().chain(self.explained.keys()).copied().collect();
        named.into_iter().filter(|&row| !is_row(row)).collect()
    }

    fn text(&self) -> String {
        let total = self.counts(self.list.sections);
        let mut text = format!("{}: {} of {} rows have a test\n", self.list.name, total.tested, total.rows);
        let _ = writeln!(
            text,
            "{:51}{:>6}{:>8}{:>16}{:>7}{:>13}",
            "", "rows", "tested", "not applicable", "later", "unaccounted"
        );
        let mut line = |name: &str, it: &Counts| {
            let open = it.unaccounted.len();
            let _ = writeln!(
                text,
                "  {name:49}{:>6}{:>8}{:>16}{:>7}{open:>13}",
                it.rows, it.tested, it.not_applicable, it.later
            );
        };
        for section in self.list.sections {
            let name = format!("{:5}{}", section.number, section.title);
            line(&name, &self.counts(std::slice::from_ref(section)));
        }
        line("total", &total);
        let _ = writeln!(text, "  unaccounted: {}", ranges(&total.unaccounted));
        for (rows, what) in [(self.contradictions(), "both tested and explained"), (self.unknown(), "no rows at all")] {
            if !rows.is_empty() {
                let _ = writeln!(text, "  {what}: {}", ranges(&rows));
            }
        }
        text
    }

    fn json(&self) -> Value {
        let counts = |it: &Counts| {
            json!({
                "rows": it.rows, "tested": it.tested, "not-applicable": it.not_applicable, "later": it.later,
                "unaccounted": it.unaccounted,
            })
        };
        let sections: Vec<Value> = (self.list.sections.iter())
            .map(|section| {
                let mut value = counts(&self.counts(std::slice::from_ref(section)));
                value["section"] = json!(section.number);
                value["title"] = json!(section.title);
                value
            })
            .collect();
        json!({
            "list": self.list.name,
            "total": counts(&self.counts(self.list.sections)),
            "sections": sections,
            "with-a-test": self.tested,
            "contradictions": self.contradictions(),
            "unknown": self.unknown(),
        })
    }
}

/// Prints, for each list and section, how many rows have a test, how many are explained and how many are neither.
pub(super) fn print(as_json: bool) -> Result<u8, CommandError> {
    let accounts = [Account::of(&RECOVERY, workspace())?, Account::of(&CHAOS, workspace())?];
    if as_json {
        say(json!({ "parity": accounts.each_ref().map(Account::json) }));
    } else {
        accounts.iter().for_each(|account| say(account.text().trim_end()));
    }
    Ok(0)
}

/// Where the sources are: this is a tool of the workspace.
fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new("."))
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
    fn the_recovery_list_has_324_rows_and_the_chaos_list_79() {
        let rows = |list: &List| list.sections.iter().map(|it| it.rows.1 - it.rows.0 + 1).sum::<u32>();
        assert_eq!((rows(&RECOVERY), rows(&CHAOS)), (324, 79));
    }

    /// Sections 8.1 to 8.6 are this engine's own subject: each row has a test or a reason why it has none.
    #[test]
    fn no_row_of_regions_failover_attempts_and_partitions_is_unaccounted_for() {
        let account = Account::of(&RECOVERY, workspace()).unwrap();
        assert_eq!(account.counts(&RECOVERY.sections[..6]).unaccounted, [0; 0]);
    }

    #[test]
    fn no_row_has_both_a_test_and_a_reason_for_having_none() {
        assert_eq!(Account::of(&RECOVERY, workspace()).unwrap().contradictions(), [0; 0]);
    }

    #[test]
    fn neither_tests_nor_the_table_name_rows_that_do_not_exist() {
        for list in [&RECOVERY, &CHAOS] {
            assert_eq!(Account::of(list, workspace()).unwrap().unknown(), [0; 0], "{}", list.name);
        }
    }

    #[test]
    fn rows_are_counted_once_each() {
        static SMALL: List = List {
            name: "small",
            sections: &[section("1", "first", (1, 4)), section("2", "second", (10, 11))],
            digits: 2,
            table: None,
        };
        let explained = BTreeMap::from([
            (2, Verdict::NotApplicable),
            (3, Verdict::Later(Some(9))),
            (11, Verdict::Later(None)),
            (12, Verdict::NotApplicable),
        ]);
        let account = Account { list: &SMALL, tested: BTreeSet::from([1, 2, 7]), explained };
        let first = account.counts(&SMALL.sections[..1]);
        assert_eq!((first.rows, first.tested, first.not_applicable, first.later), (4, 2, 1, 1));
        assert_eq!(account.counts(SMALL.sections).unaccounted, [4, 10]);
        assert_eq!((account.contradictions(), account.unknown()), (vec![2], vec![7, 12]));
        let text = account.text();
        assert!(text.contains("unaccounted: 4, 10\n"), "{text}");
        assert!(text.contains("both tested and explained: 2\n") && text.contains("no rows at all: 7, 12\n"), "{text}");
        assert_eq!(account.json()["sections"][1]["later"], 1);
    }

    #[test]
    fn rows_print_as_ranges() {
        assert_eq!(ranges(&[1, 2, 3, 7]), "1-3, 7");
        assert_eq!(ranges(&[]), "none");
    }
}
