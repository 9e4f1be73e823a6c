//! Reading JSON the way Go's `encoding/json` does, because clients rely on it: field names match without regard to
//! case, `null` leaves a field alone, unknown fields are ignored, text after the first value is ignored, and a number
//! with a fraction is no integer.

use serde_json::{Map, Value};

/// The first JSON value of a body.
pub(crate) fn first_value(body: &[u8]) -> Result<Value, String> {
    match serde_json::Deserializer::from_slice(body).into_iter::<Value>().next() {
        None => Err("EOF".to_owned()),
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) if error.is_eof() => Err("unexpected EOF".to_owned()),
        Some(Err(error)) => Err(error.to_string()),
    }
}

/// A JSON object (or `null`, which counts as an empty one) that is read field by field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Object<'a> {
    /// Go's name of the structure, for messages.
    what: &'static str,
    fields: Option<&'a Map<String, Value>>,
}

impl<'a> Object<'a> {
    pub(crate) fn of(what: &'static str, value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Object(fields) => Ok(Self { what, fields: Some(fields) }),
            Value::Null => Ok(Self { what, fields: None }),
            other => Err(format!("json: cannot unmarshal {} into Go value of type {what}", kind(other))),
        }
    }

    /// The names given.
    pub(crate) fn names(self) -> impl Iterator<Item = &'a str> {
        self.fields.into_iter().flat_map(|fields| fields.keys().map(String::as_str))
    }

    /// A field that is present and not `null`; its exact name wins over other spellings.
    pub(crate) fn get(self, name: &str) -> Option<&'a Value> {
        let fields = self.fields?;
        let found = fields
            .get(name)
            .or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))?;
        (!found.is_null()).then_some(found)
    }

    pub(crate) fn string(self, name: &str) -> Result<Option<&'a str>, String> {
        self.typed(name, "string", Value::as_str)
    }

    pub(crate) fn boolean(self, name: &str) -> Result<Option<bool>, String> {
        self.typed(name, "bool", Value::as_bool)
    }

    pub(crate) fn integer(self, name: &str) -> Result<Option<i64>, String> {
        self.typed(name, "int64", Value::as_i64)
    }

    pub(crate) fn float32(self, name: &str) -> Result<Option<f32>, String> {
        self.typed(name, "float32", |value| value.as_f64().map(|wide| wide as f32).filter(|narrow| narrow.is_finite()))
    }

    fn typed<T>(self, name: &str, type_name: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| {
            format!(
                "json: cannot unmarshal {} into Go struct field {}.{name} of type {type_name}",
                kind(value),
                self.what
            )
        })
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) => format!("number {number}"),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

/// The known name that is closest to a mistyped one, if any is close.
pub(crate) fn nearest<'n>(typed: &str, known: &[&'n str]) -> Option<&'n str> {
    known
        .iter()
        .map(|name| (distance(typed, name), *name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(2))
        .min()
        .map(|(_, name)| name)
}

fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, typed) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, wanted) in right.iter().enumerate() {
            let change = diagonal + usize::from(typed != *wanted);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_match_without_case_and_null_leaves_them_alone() {
        let value = json!({"Rate": 5, "name": null, "other": []});
        let object = Object::of("Toxic", &value).expect("an object");
        assert_eq!(object.integer("rate"), Ok(Some(5)));
        assert_eq!(object.string("name"), Ok(None));
        assert_eq!(object.string("absent"), Ok(None));
    }

    #[test]
    fn wrong_types_are_told_in_gos_words() {
        let value = json!({"rate": 1.5, "whole": 1.0, "name": 3, "huge": 1e300});
        let object = Object::of("Toxic", &value).expect("an object");
        assert_eq!(
            object.integer("rate"),
            Err("json: cannot unmarshal number 1.5 into Go struct field Toxic.rate of type int64".to_owned())
        );
        assert!(object.integer("whole").is_err());
        assert!(object.string("name").is_err());
        assert!(object.float32("huge").is_err());
        assert!(Object::of("Toxic", &json!([])).is_err());
    }

    #[test]
    fn the_first_value_counts() {
        assert_eq!(first_value(br#"{"a":1} trailing"#), Ok(json!({"a": 1})));
        assert_eq!(first_value(b" "), Err("EOF".to_owned()));
        assert_eq!(first_value(br#"{"a":"#), Err("unexpected EOF".to_owned()));
        assert!(first_value(b"}").is_err());
    }

    #[test]
    fn the_nearest_name_is_found() {
        assert_eq!(nearest("latancy", &["latency", "jitter"]), Some("latency"));
        assert_eq!(nearest("xyz", &["latency", "jitter"]), None);
    }
}
