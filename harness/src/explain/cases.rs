//! Cases by the file: one a line in, one answer a line out, in order, one line in memory at a time.

use std::io::{self, BufRead, Read as _, Write};

use stormproof_coordinator::explain::answer_case;

/// Longest line, bytes.
const MAX_LINE: u64 = 16 << 20;

/// What became of a file of cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CasesOutcome {
    /// Lines that were answered.
    pub answered: u64,
    /// Lines that are no case.
    pub refused: u64,
}

/// Answers every line of `cases` on `answers`, in order. A line that is no case is told to `complain`, with its number
/// from 1, and the next one is answered all the same. Blank lines are passed over.
///
/// Answers are flushed whenever `cases` has nothing more at hand, so that a pipe can be used for conversation.
///
/// # Errors
/// If reading or writing fails.
pub fn answer_cases(
    cases: &mut io::BufReader<impl io::Read>,
    answers: &mut impl Write,
    mut complain: impl FnMut(u64, &dyn std::error::Error),
) -> io::Result<CasesOutcome> {
    let mut outcome = CasesOutcome::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if cases.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let is_whole = line.last() == Some(&b'\n') || (line.len() as u64) < MAX_LINE;
        if !is_whole {
            cases.skip_until(b'\n')?;
            outcome.refused += 1;
            complain(number, &io::Error::other(format!("the line is longer than {MAX_LINE} bytes")));
            continue;
        }
        match std::str::from_utf8(&line) {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => match answer_case(text.trim_end_matches(['\r', '\n'])) {
                Ok(answer) => {
                    outcome.answered += 1;
                    writeln!(answers, "{answer}")?;
                }
                Err(error) => {
                    outcome.refused += 1;
                    complain(number, &error);
                }
            },
            Err(error) => {
                outcome.refused += 1;
                complain(number, &error);
            }
        }
        if cases.buffer().is_empty() {
            answers.flush()?;
        }
    }
    answers.flush()?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = r#"{"id":"x","vertices":[{"name":"a","parallelism":1}],"edges":[],"states":{"a":["RUNNING"]},"lost":[],"fail":"a/0","cause":[]}"#;
    const ANSWER: &str = r#"{"id":"x","regions":[["a/0"]],"restart":["a/0"]}"#;

    fn answered(input: &[u8]) -> (String, Vec<(u64, String)>, CasesOutcome) {
        let (mut out, mut complaints) = (vec![], vec![]);
        let outcome = answer_cases(&mut io::BufReader::new(input), &mut out, |number, error| {
            complaints.push((number, error.to_string()));
        });
        (String::from_utf8(out).unwrap(), complaints, outcome.unwrap())
    }

    #[test]
    fn a_bad_line_costs_only_its_own_answer() {
        let input = [CASE.as_bytes(), b"\n{]\r\n\n", CASE.as_bytes(), b"\r\n\xff\n", CASE.as_bytes()].concat();
        let (out, complaints, outcome) = answered(&input);
        assert_eq!(out, format!("{ANSWER}\n{ANSWER}\n{ANSWER}\n"));
        assert_eq!(complaints.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 5]);
        assert!(complaints[0].1.starts_with("not a case"), "{complaints:?}");
        assert_eq!(outcome, CasesOutcome { answered: 3, refused: 2 });
    }

    #[test]
    fn an_endless_line_is_refused_and_passed_over() {
        let mut input = vec![b'['; usize::try_from(MAX_LINE).unwrap() + 5];
        input.extend([b"\n", CASE.as_bytes()].concat());
        let (out, complaints, _) = answered(&input);
        assert_eq!((out, complaints.len(), complaints[0].0), (format!("{ANSWER}\n"), 1, 1));
    }
}
