//! JUnit XML, as Jenkins and most readers of it take it.

use std::fmt::Write;

use super::{RunReport, SuiteReport};
use crate::verdict::Verdict;

/// The run as JUnit XML: *fail*, *vacuous* and *inconclusive* are failures, *invalid*, *precondition* and *refused*
/// are errors. The exact verdict is the `type`, and a property.
#[must_use]
pub fn render(run: &RunReport) -> String {
    let count = |wanted: Kind| run.suites.iter().filter(|suite| kind(suite.verdict) == wanted).count();
    let (failures, errors, skipped) = (count(Kind::Failure), count(Kind::Error), count(Kind::Skipped));
    let time = seconds(run.suites.iter().map(|suite| suite.took_ms).sum());
    let counts = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{time}\"",
        run.suites.len()
    );
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    let _ = write!(text, "<testsuites name=\"stormproof\" {counts}>\n  <testsuite name=\"stormproof\" {counts}>\n");
    for suite in &run.suites {
        case(&mut text, suite);
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Kind {
    Green,
    Skipped,
    Failure,
    Error,
}

fn kind(verdict: Verdict) -> Kind {
    match verdict {
        Verdict::Pass => Kind::Green,
        Verdict::Skipped => Kind::Skipped,
        Verdict::Fail | Verdict::Vacuous | Verdict::Inconclusive => Kind::Failure,
        Verdict::Invalid | Verdict::Precondition | Verdict::Refused => Kind::Error,
    }
}

fn case(text: &mut String, suite: &SuiteReport) {
    let run = &suite.run;
    let (name, class, time) = (escape(&run.suite), escape(&run.target), seconds(suite.took_ms));
    let _ = write!(text, "    <testcase name=\"{name}\" classname=\"{class}\" time=\"{time}\">\n      <properties>\n");
    let properties = [
        ("verdict", suite.verdict.to_string()),
        ("seed", run.seed.to_string()),
        ("plan", run.plan_hash.clone()),
        ("target", run.target.clone()),
        ("engine", run.engine.clone()),
        ("repeat", run.repeat.clone()),
    ];
    for (name, value) in properties {
        let _ = writeln!(text, "        <property name=\"{name}\" value=\"{}\"/>", escape(&value));
    }
    text.push_str("      </properties>\n");
    let (why, verdict) = (escape(&suite.why()), suite.verdict);
    match kind(verdict) {
        Kind::Green => {}
        Kind::Skipped => drop(writeln!(text, "      <skipped message=\"{why}\"/>")),
        Kind::Failure => element(text, "failure", &why, verdict, suite),
        Kind::Error => element(text, "error", &why, verdict, suite),
    }
    text.push_str("    </testcase>\n");
}

fn element(text: &mut String, name: &str, why: &str, verdict: Verdict, suite: &SuiteReport) {
    let _ = write!(text, "      <{name} message=\"{why}\" type=\"{verdict}\">");
    for judgement in suite.judgements.iter().filter(|judgement| !judgement.verdict.is_green()) {
        let _ = writeln!(text, "{}: {}: {}", escape(&judgement.oracle), judgement.verdict, escape(&judgement.summary));
        for line in &judgement.evidence {
            let _ = writeln!(text, "  {}", escape(line));
        }
    }
    let _ = writeln!(text, "repeat: {}</{name}>", escape(&suite.run.repeat));
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// Text for an element or a quoted attribute. Terminal colours and characters that XML 1.0 forbids are left out.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' if characters.peek() == Some(&'[') => {
                // `ESC [ … letter`; the bracket itself is no letter.
                let _ = characters.by_ref().skip(1).find(|c| ('\u{40}'..='\u{7e}').contains(c));
            }
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // Kept apart from spaces even within an attribute.
            '\n' => safe.push_str("&#10;"),
            '\t' => safe.push_str("&#9;"),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {}
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn verdicts_become_failures_errors_and_skips() {
        let mut run = sample::run();
        let first = run.suites[0].clone();
        for verdict in [Verdict::Invalid, Verdict::Skipped, Verdict::Vacuous] {
            run.suites.push(SuiteReport { verdict, ..first.clone() });
        }
        let text = render(&run);
        assert!(text.contains("tests=\"5\" failures=\"2\" errors=\"1\" skipped=\"1\" time=\"6.900\""), "{text}");
        assert!(text.contains("<testcase name=\"batch::bad\" classname=\"bundled\" time=\"1.300\">"));
        assert!(text.contains("type=\"vacuous\"") && text.contains("<property name=\"seed\" value=\"7\"/>"));
        assert!(text.contains("missing restart: map[0] restarts because it failed"));
        assert!(text.contains("repeat: stormproof run batch::bad --seed 7</failure>"));
    }

    #[test]
    fn nothing_illegal_gets_through() {
        assert_eq!(escape("a<b>&\"\u{1b}[31mred\u{1b}[0m\u{0}\u{b}\u{fffe}"), "a&lt;b&gt;&amp;&quot;red");
        assert_eq!(escape("]]>\n\u{1b}(ü"), "]]&gt;&#10;(ü");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_well_formed(text in "\\PC*|[\\x00-\\x7f]*") {
            let safe = escape(&text);
            proptest::prop_assert!(safe.chars().all(|c| c >= ' ' && !matches!(c, '<' | '>' | '"')));
            for rest in safe.split('&').skip(1) {
                let entity = rest.split(';').next().unwrap_or("");
                proptest::prop_assert!(["amp", "lt", "gt", "quot", "#10", "#9"].contains(&entity));
            }
        }
    }
}
