//! `report.md`.

use std::fmt::Write;

use super::{RunReport, SuiteReport};

/// The report as Markdown. Its last line is the command that repeats the run.
#[must_use]
pub fn render(run: &RunReport) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "# Stormproof: {}\n\n| suite | verdict | took | what it does | what came of it |\n| --- | --- | --- | --- | --- |\n",
        run.verdict()
    );
    for suite in &run.suites {
        let (name, took, about) = (cell(&suite.run.suite), seconds(suite.took_ms), cell(&suite.run.about));
        let _ = writeln!(text, "| {name} | **{}** | {took} | {about} | {} |", suite.verdict, cell(&suite.why()));
    }
    for suite in &run.suites {
        section(&mut text, suite);
    }
    let what = if run.verdict().is_green() { "Repeat" } else { "Repeat the suite that decided" };
    let _ = write!(text, "\n{what}:\n\n{}\n", run.repeat());
    text
}

fn section(text: &mut String, suite: &SuiteReport) {
    let run = &suite.run;
    let _ = write!(text, "\n## {}: {}\n\n", run.suite, suite.verdict);
    if !run.about.is_empty() {
        let _ = write!(text, "{}\n\n", run.about);
    }
    let engine = if run.engine.is_empty() { String::new() } else { format!(" ({})", run.engine) };
    let (target, seed, plan) = (&run.target, run.seed, &run.plan_hash);
    let _ = write!(text, "Target {target}{engine}, seed {seed}, plan {plan}, took {}.\n\n", seconds(suite.took_ms));
    text.push_str("| oracle | verdict | finding |\n| --- | --- | --- |\n");
    for judgement in &suite.judgements {
        let (oracle, finding) = (cell(&judgement.oracle), cell(&judgement.summary));
        let _ = writeln!(text, "| {oracle} | {} | {finding} |", judgement.verdict);
    }
    for judgement in suite.judgements.iter().filter(|judgement| !judgement.evidence.is_empty()) {
        block(text, &judgement.oracle, judgement.evidence.iter().cloned());
    }
    block(text, "course", suite.course.iter().map(|moment| format!("{:>8} ms  {}", moment.at_ms, moment.what)));
    let _ = write!(text, "\nRepeat this suite: `{}`\n", run.repeat);
}

fn block(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<_> = lines.map(|line| line.replace(['\n', '\r'], " ")).collect();
    // Longer than any fence in the text, so that no line can end the block.
    let longest = lines.iter().map(|line| line.chars().take_while(|c| *c == '`').count()).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = write!(text, "\n### {title}\n\n{fence}text\n{}\n{fence}\n", lines.join("\n"));
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn the_first_screen_is_the_table_and_the_last_line_the_command() {
        let text = render(&sample::run());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "# Stormproof: fail");
        let row =
            "| batch::good | **pass** | 1.4 s | kills the only executor \\| once | 4 judgements, all good; exactly";
        assert!(lines[4].starts_with(row), "{}", lines[4]);
        let row = "| batch::bad | **fail** | 1.3 s | kills the only executor \\| once | restart-set: 1 missing";
        assert!(lines[5].starts_with(row), "{}", lines[5]);
        assert_eq!(lines.last(), Some(&"stormproof run batch::bad --seed 7"));
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn each_suite_tells_what_was_done_the_reasons_and_the_course() {
        let text = render(&sample::run());
        for wanted in [
            "## batch::bad: fail",
            "kills the only executor | once",
            "Target bundled (Stormproof 0.1.0), seed 7, plan abc123, took 1.3 s.",
            "### restart-set",
            "missing restart: map[0] restarts because it failed",
            "     800 ms  fault kill injected",
            "Repeat this suite: `stormproof run batch::bad --seed 7`",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
    }

    #[test]
    fn no_text_breaks_out_of_its_place() {
        assert_eq!(cell("a | b\nc"), "a \\| b c");
        let mut text = String::new();
        block(&mut text, "x", ["````".to_owned(), "a\nb".to_owned()].into_iter());
        assert_eq!(text, "\n### x\n\n`````text\n````\na b\n`````\n");
    }
}
