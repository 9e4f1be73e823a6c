//! The part of YAML that a Flink `config.yaml` uses: `key: value` lines, nested maps by indentation, comments, quoted
//! scalars. Anything else (lists, anchors, block scalars, flow maps) is refused with its line number instead of being
//! read half.

/// A scalar: its line (from 1), its flat key, its value.
type Scalar = (usize, String, String);

/// Every scalar of `text`, in order.
///
/// # Errors
/// The number of the line and what is wrong with it.
pub(super) fn flatten(text: &str) -> Result<Vec<Scalar>, (usize, String)> {
    let mut entries = Vec::new();
    // Open maps: the indentation of their *key*, and the flat key.
    let mut open: Vec<(usize, String)> = Vec::new();
    let lines: Vec<(usize, &str)> = text.lines().enumerate().map(|(index, line)| (index + 1, line)).collect();
    let content: Vec<(usize, usize, &str)> = lines
        .iter()
        .filter_map(|&(number, line)| {
            let body = line.trim_start();
            let significant = !body.is_empty() && !body.starts_with('#') && body.trim_end() != "---";
            significant.then(|| (number, line.len() - body.len(), body.trim_end()))
        })
        .collect();
    for (position, &(number, indent, body)) in content.iter().enumerate() {
        let (key, rest) = split_key(body).ok_or_else(|| (number, format!("expected `key: value`, found `{body}`")))?;
        while open.last().is_some_and(|(level, _)| *level >= indent) {
            open.pop();
        }
        let previous = position.checked_sub(1).map(|before| content[before].1);
        if open.is_empty() && indent > 0
            || previous.is_some_and(|before| indent > before && opened_by(&open) != Some(before))
        {
            return Err((number, "this line is indented under a line that has a value".to_owned()));
        }
        let flat = match open.last() {
            Some((_, prefix)) => format!("{prefix}.{key}"),
            None => key,
        };
        match scalar(rest).map_err(|problem| (number, problem))? {
            Some(value) => entries.push((number, flat, value)),
            None if content.get(position + 1).is_some_and(|next| next.1 > indent) => open.push((indent, flat)),
            None => return Err((number, format!("`{flat}` has no value"))),
        }
    }
    Ok(entries)
}

fn opened_by(open: &[(usize, String)]) -> Option<usize> {
    open.last().map(|(indent, _)| *indent)
}

/// The key, unquoted, and what follows its colon.
fn split_key(body: &str) -> Option<(String, &str)> {
    if body.starts_with("- ") || body == "-" {
        return None;
    }
    if let Some(quote @ ('"' | '\'')) = body.chars().next() {
        let end = body[1..].find(quote)? + 1;
        let rest = body[end + 1..].trim_start().strip_prefix(':')?;
        return Some((body[1..end].to_owned(), rest.trim_start()));
    }
    let colon =
        body.match_indices(':').find(|(at, _)| matches!(body.as_bytes().get(at + 1), None | Some(b' ' | b'\t')))?.0;
    let key = body[..colon].trim_end();
    (!key.is_empty()).then(|| (key.to_owned(), body[colon + 1..].trim_start()))
}

/// The value of a scalar, or none where there is no text (a nested map follows).
fn scalar(text: &str) -> Result<Option<String>, String> {
    match text.chars().next() {
        None | Some('#') => Ok(None),
        Some(quote @ ('"' | '\'')) => {
            let end = text[1..].find(quote).ok_or_else(|| "the quote is not closed".to_owned())? + 1;
            let after = text[end + 1..].trim_start();
            if !(after.is_empty() || after.starts_with('#')) {
                return Err(format!("unexpected `{after}` after the closing quote"));
            }
            let inner = &text[1..end];
            if quote == '"' && inner.contains('\\') {
                return Err("escapes in double quotes are not supported; use single quotes".to_owned());
            }
            Ok(Some(inner.to_owned()))
        }
        Some(first @ ('[' | '{' | '|' | '>' | '&' | '*' | '!')) => {
            Err(format!("values that begin with `{first}` are not supported; write plain `key: value` lines"))
        }
        Some(_) => {
            let end = text.find(" #").unwrap_or(text.len());
            Ok(Some(text[..end].trim_end().to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        flatten(text).unwrap().into_iter().map(|(_, key, value)| (key, value)).collect()
    }

    #[test]
    fn reads_flat_and_nested_keys() {
        let text = "# a comment\n---\nheartbeat.timeout: 5 s # why\nrestart-strategy:\n  type: fixed-delay\n  fixed-delay:\n    attempts: 3\n    delay: '1 s'\n\nrest.address: \"localhost\"\nfs: s3://bucket/dir\n";
        let expected = [
            ("heartbeat.timeout", "5 s"),
            ("restart-strategy.type", "fixed-delay"),
            ("restart-strategy.fixed-delay.attempts", "3"),
            ("restart-strategy.fixed-delay.delay", "1 s"),
            ("rest.address", "localhost"),
            ("fs", "s3://bucket/dir"),
        ];
        assert_eq!(pairs(text), expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_map_ends_where_the_indentation_ends() {
        let text = "a:\n    b:\n        c: 1\n    d: 2\ne: 3\n";
        let keys: Vec<String> = pairs(text).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["a.b.c", "a.d", "e"]);
    }

    #[test]
    fn refuses_the_rest_of_yaml_with_the_line() {
        for (text, line) in [
            ("a: 1\nb: [1, 2]\n", 2),
            ("a:\n  - 1\n", 2),
            ("a: 1\n  b: 2\n", 2),
            ("just words\n", 1),
            ("a: 'open\n", 1),
            ("a: 1\nb:\n", 2),
            ("a: |\n  text\n", 1),
            ("  a: 1\n", 1),
        ] {
            assert_eq!(flatten(text).unwrap_err().0, line, "{text:?}");
        }
    }
}
