//! Shapes of JSON: names and kinds of fields, without their values.

use std::collections::BTreeMap;

use serde_json::Value;

#[derive(Debug, Clone)]
enum Shape {
    Object(BTreeMap<String, Shape>),
    Array(Option<Box<Shape>>),
    Scalar(char),
}

/// The shape of a value, written as in the file of recorded shapes. What stands under `stormproof` is ours.
pub(super) fn of(value: &Value) -> String {
    write(&shape(value))
}

fn shape(value: &Value) -> Shape {
    match value {
        Value::Object(fields) => {
            let flinks = fields.iter().filter(|(name, _)| *name != "stormproof");
            Shape::Object(flinks.map(|(name, value)| (name.clone(), shape(value))).collect())
        }
        Value::Array(items) => Shape::Array(items.iter().map(shape).reduce(merge).map(Box::new)),
        Value::Number(_) => Shape::Scalar('n'),
        Value::String(_) => Shape::Scalar('s'),
        Value::Bool(_) => Shape::Scalar('b'),
        Value::Null => Shape::Scalar('z'),
    }
}

fn merge(a: Shape, b: Shape) -> Shape {
    match (a, b) {
        (Shape::Object(mut a), Shape::Object(b)) => {
            for (name, field) in b {
                let merged = match a.remove(&name) {
                    Some(there) => merge(there, field),
                    None => field,
                };
                a.insert(name, merged);
            }
            Shape::Object(a)
        }
        (Shape::Array(None), other) => other,
        (a, _) => a,
    }
}

fn write(shape: &Shape) -> String {
    match shape {
        Shape::Object(fields) => {
            let fields: Vec<_> = fields.iter().map(|(name, field)| format!("{name}:{}", write(field))).collect();
            format!("{{{}}}", fields.join(","))
        }
        Shape::Array(item) => format!("[{}]", item.as_deref().map(write).unwrap_or_default()),
        Shape::Scalar(kind) => kind.to_string(),
    }
}

/// Path and shape of every recorded answer, abbreviations written out.
pub(super) fn recorded() -> Vec<(String, String)> {
    let mut short: Vec<(&str, String)> = Vec::new();
    let mut found = Vec::new();
    let lines = include_str!("flink_2_3_0.shapes").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let (name, text) = line.split_once(' ').unwrap();
        let mut text = text.strip_prefix("= ").unwrap_or(text).to_owned();
        // Longer names first, so that none is taken for the start of another.
        short.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        for (name, long) in &short {
            text = text.replace(name, long);
        }
        if name.starts_with('$') { short.push((name, text)) } else { found.push((name.to_owned(), text)) }
    }
    assert!(found.len() > 30, "the file of shapes was not read");
    found
}
