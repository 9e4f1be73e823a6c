//! The table that is printed.

use std::fmt;

/// Which of two numbers is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    More,
    Less,
}

/// Rows of one number for each server, the last two of which are compared.
pub(crate) struct Table {
    servers: Vec<&'static str>,
    rows: Vec<(String, Vec<f64>, Better)>,
}

impl Table {
    pub(crate) fn new(servers: impl Iterator<Item = &'static str>) -> Self {
        Self { servers: servers.collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, name: &str, unit: &str, better: Better, numbers: &[f64]) {
        self.rows.push((format!("{name} [{unit}]"), numbers.to_vec(), better));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<46}", "")?;
        for server in &self.servers {
            write!(f, "{server:>12}")?;
        }
        writeln!(f, "{:>14}", "ours / real")?;
        for (name, numbers, better) in &self.rows {
            write!(f, "{name:<46}")?;
            for number in numbers {
                write!(f, "{:>12}", shown(*number))?;
            }
            if let [_, ours, real] = numbers[..] {
                let ratio = ours / real;
                let is_better = (*better == Better::More) == (ratio > 1.0);
                write!(f, "{ratio:>9.2} {}", if is_better { "good" } else { "    " })?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// With about three digits that mean something.
fn shown(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// The middle one.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
