//! The body of `POST /jars/:name/run`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::cluster::Submission;
use super::error::ApiError;
use crate::graph::{JobId, Params};

/// Flink's `JarRunRequestBody`. All fields may be absent or null.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct JarRunRequest {
    /// Accepted and without a meaning here: a registered job is its own main class.
    entry_class: Option<String>,
    program_args: Option<String>,
    program_args_list: Option<Vec<String>>,
    parallelism: Option<u32>,
    job_id: Option<String>,
    allow_non_restored_state: Option<bool>,
    savepoint_path: Option<String>,
    /// Goes with `savepoint_path`, which is refused.
    restore_mode: Option<String>,
    /// Likewise.
    claim_mode: Option<String>,
    flink_configuration: Option<BTreeMap<String, Value>>,
}

/// Reads a submission of the job called `job`. An empty body submits it with its defaults.
pub(super) fn parse(job: &str, body: &[u8]) -> Result<Submission, ApiError> {
    let request: JarRunRequest = match body {
        [] => JarRunRequest::default(),
        body => serde_json::from_slice(body).map_err(|error| {
            ApiError::bad_request(format!("Request did not match expected format JarRunRequestBody: {error}"))
        })?,
    };
    if request.savepoint_path.is_some() || request.allow_non_restored_state == Some(true) {
        return Err(ApiError::bad_request(
            "savepoints are not supported: leave savepointPath and allowNonRestoredState out",
        ));
    }
    if request.parallelism.is_some() {
        let hint =
            "parallelism is a parameter of each job here: give it in programArgsList, e.g. [\"--parallelism\", \"2\"]";
        return Err(ApiError::bad_request(hint));
    }
    let words = match (request.program_args_list, request.program_args) {
        (Some(_), Some(_)) => return Err(ApiError::bad_request("give programArgsList or programArgs, not both")),
        (Some(list), None) => list,
        (None, Some(text)) => text.split_whitespace().map(ToOwned::to_owned).collect(),
        (None, None) => Vec::new(),
    };
    let id = match request.job_id {
        None => None,
        Some(text) => Some(text.parse::<JobId>().map_err(|error| ApiError::bad_request(format!("jobId: {error}")))?),
    };
    let config = request.flink_configuration.unwrap_or_default();
    let config = config.into_iter().map(|(key, value)| (key, plain(value))).collect();
    Ok(Submission { job: job.to_owned(), params: arguments(&words)?, config, id })
}

/// A configuration value as text: clients write `true` and `3` as well as `"true"` and `"3"`.
fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Program arguments as Flink's `ParameterTool` reads them: `--key value`, `--key=value` and `--flag`, with one dash
/// or two. A flag is `true`.
fn arguments(words: &[String]) -> Result<Params, ApiError> {
    let mut params = BTreeMap::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(key) = key(word) else {
            let message =
                format!("programArgsList: `{word}` stands where a key is expected; write \"--key\", \"value\"");
            return Err(ApiError::bad_request(message));
        };
        let (key, value) = match key.split_once('=') {
            Some((key, value)) => (key, value.to_owned()),
            None => (key, words.next_if(|next| self::key(next).is_none()).map_or("true".to_owned(), Clone::clone)),
        };
        if params.insert(key.to_owned(), value).is_some() {
            return Err(ApiError::bad_request(format!("programArgsList: `{key}` is given twice")));
        }
    }
    Ok(Params(params))
}

/// The key that a word names, unless the word is a value: negative numbers are values.
fn key(word: &str) -> Option<&str> {
    if word.parse::<f64>().is_ok() {
        return None;
    }
    let key = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Submission, String> {
        parse("wordcount", body.as_bytes()).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn arguments_are_read_as_flink_reads_them() {
        let body = r#"{"entryClass": null, "programArgsList":
            ["--records", "10", "-offset", "-5", "--fast", "--out=/tmp/a b", "--last"]}"#;
        let expected = Params::default()
            .with("records", 10)
            .with("offset", -5)
            .with("fast", true)
            .with("out", "/tmp/a b")
            .with("last", true);
        assert_eq!(read(body).unwrap().params, expected);
        assert_eq!(read(r#"{"programArgs": "--a 1"}"#).unwrap().params, Params::default().with("a", 1));
    }

    #[test]
    fn an_empty_body_means_defaults() {
        let submission = parse("wordcount", b"").unwrap();
        let expected =
            Submission { job: "wordcount".into(), params: Params::default(), config: BTreeMap::new(), id: None };
        assert_eq!(submission, expected);
    }

    #[test]
    fn configuration_and_identifier_are_taken() {
        let id = "00000000000000000000000000c0ffee";
        let body = format!(r#"{{"jobId": "{id}", "flinkConfiguration": {{"a.b": "1 s", "c": 3, "d": true}}}}"#);
        let submission = read(&body).unwrap();
        assert_eq!(submission.id.unwrap().to_string(), id);
        let expected = [("a.b", "1 s"), ("c", "3"), ("d", "true")].map(|(key, value)| (key.into(), value.into()));
        assert_eq!(submission.config, BTreeMap::from(expected));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (body, part) in [
            (r#"{"programArgsList": ["10"]}"#, "`10` stands where a key is expected"),
            (r#"{"programArgsList": ["--a", "1", "--a", "2"]}"#, "`a` is given twice"),
            (r#"{"jobId": "coffee"}"#, "expected 32 hexadecimal digits"),
            (r#"{"programArgsLst": []}"#, "programArgsLst"),
            (r#"{"savepointPath": "s3://x"}"#, "savepoints are not supported"),
            (r#"{"parallelism": 2}"#, "--parallelism"),
            ("{", "JarRunRequestBody"),
        ] {
            let error = read(body).unwrap_err();
            assert!(error.contains(part), "{body}: {error}");
        }
    }
}
