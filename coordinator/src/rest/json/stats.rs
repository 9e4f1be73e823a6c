//! Minima, maxima, averages and percentiles as Flink writes them.

use serde_json::{Value, json};

/// Percentile `p` (0 to 1) of sorted values, as Flink's `DescriptiveStatistics` estimates it (commons-math, legacy
/// method): position p·(n+1), linear between neighbours.
fn percentile(sorted: &[u64], p: f64) -> Option<f64> {
    let (first, last) = (*sorted.first()? as f64, *sorted.last()? as f64);
    let position = p * (sorted.len() as f64 + 1.0);
    let below = position.floor();
    if below < 1.0 {
        return Some(first);
    }
    let index = below as usize;
    match sorted.get(index) {
        None => Some(last),
        Some(&above) => {
            let lower = sorted[index - 1] as f64;
            Some(lower + (position - below) * (above as f64 - lower))
        }
    }
}

fn average(values: &[u64]) -> u64 {
    values.iter().sum::<u64>() / (values.len() as u64).max(1)
}

/// Flink's `StatsSummary` of checkpoints: without data the percentiles are the *string* `NaN`.
pub(in crate::rest) fn summary(mut values: Vec<u64>) -> Value {
    values.sort_unstable();
    let at = |p| percentile(&values, p).map_or_else(|| json!("NaN"), |value| json!(value));
    json!({
        "min": values.first().copied().unwrap_or(0),
        "max": values.last().copied().unwrap_or(0),
        "avg": average(&values),
        "p50": at(0.5),
        "p90": at(0.9),
        "p95": at(0.95),
        "p99": at(0.99),
        "p999": at(0.999),
    })
}

/// Flink's `MetricStats` over subtasks, whole numbers only.
pub(in crate::rest) fn metric(mut values: Vec<u64>) -> Value {
    values.sort_unstable();
    let at = |p| percentile(&values, p).unwrap_or(0.0) as u64;
    json!({
        "min": values.first().copied().unwrap_or(0),
        "max": values.last().copied().unwrap_or(0),
        "avg": average(&values),
        "sum": values.iter().sum::<u64>(),
        "median": at(0.5),
        "p25": at(0.25),
        "p75": at(0.75),
        "p95": at(0.95),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_flinks() {
        // Two subtasks of a recorded answer: 4278 and 2458 records.
        let expected = json!({
            "p25": 2458, "min": 2458, "avg": 3368, "median": 3368, "max": 4278, "sum": 6736, "p95": 4278, "p75": 4278
        });
        assert_eq!(metric(vec![4278, 2458]), expected);
        let ten = summary((1..=10).collect());
        assert_eq!((&ten["p50"], &ten["p90"], &ten["p999"]), (&json!(5.5), &json!(9.9), &json!(10.0)));
    }

    #[test]
    fn no_data_is_the_text_nan() {
        let expected = json!({
            "min": 0, "max": 0, "avg": 0, "p50": "NaN", "p90": "NaN", "p95": "NaN", "p99": "NaN", "p999": "NaN"
        });
        assert_eq!(summary(vec![]), expected);
    }
}
