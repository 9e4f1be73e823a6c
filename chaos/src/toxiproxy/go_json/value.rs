//! Values, their fields and types.

use bytes::Bytes;

use super::error::BadJson;
use super::{scan, string};

/// A value, cut out of a text that has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Json(Bytes);

/// A field of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name as it was written.
    pub(crate) name: String,
    key: String,
    value: Json,
}

impl Json {
    /// The first value of a text.
    ///
    /// # Errors
    ///
    /// What is wrong with it, or that there is none.
    pub(crate) fn first_of(text: &Bytes) -> Result<Self, BadJson> {
        Ok(Self(text.slice(scan::first_value(text)?)))
    }

    /// The fields of an object, in its order; none for `null`.
    ///
    /// # Errors
    ///
    /// Anything else is no `wanted`, which is Go's name of the type.
    pub(crate) fn fields(&self, wanted: &str) -> Result<Vec<Field>, BadJson> {
        self.fields_at("value", wanted)
    }

    /// The items of an array, in its order; none for `null`.
    ///
    /// # Errors
    ///
    /// As [`Json::fields`].
    pub(crate) fn items(&self, wanted: &str) -> Result<Vec<Json>, BadJson> {
        self.items_at("value", wanted)
    }

    fn fields_at(&self, place: &str, wanted: &str) -> Result<Vec<Field>, BadJson> {
        match self.kind() {
            "null" => Ok(Vec::new()),
            "object" => {
                let inner = self.inner();
                Ok(inner.chunks_exact(2).map(|pair| Field::new(&pair[0], pair[1].clone())).collect())
            }
            _ => Err(self.mismatch(place, wanted)),
        }
    }

    fn items_at(&self, place: &str, wanted: &str) -> Result<Vec<Json>, BadJson> {
        match self.kind() {
            "null" => Ok(Vec::new()),
            "array" => Ok(self.inner()),
            _ => Err(self.mismatch(place, wanted)),
        }
    }

    /// The values in an array, or the names and values in an object.
    fn inner(&self) -> Vec<Json> {
        let mut values = Vec::new();
        let mut rest = self.0.slice(1..);
        loop {
            let is_between = |byte: &u8| b" \t\r\n,:".contains(byte);
            rest = rest.slice(rest.iter().take_while(|byte| is_between(byte)).count()..);
            // The bracket at the end is no value.
            let Ok(range) = scan::first_value(&rest) else { return values };
            values.push(Self(rest.slice(range.clone())));
            rest = rest.slice(range.end..);
        }
    }

    fn kind(&self) -> &'static str {
        match self.0.first() {
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b'"') => "string",
            Some(b't' | b'f') => "bool",
            Some(b'n') => "null",
            _ => "number",
        }
    }

    fn mismatch(&self, place: &str, wanted: &str) -> BadJson {
        BadJson::Mismatch { value: self.kind().to_owned(), place: place.to_owned(), wanted: wanted.to_owned() }
    }
}

impl Field {
    fn new(name: &Json, value: Json) -> Self {
        let name = string::meaning(&name.0);
        let key = name.chars().map(folded).collect();
        Self { name, key, value }
    }

    /// Its name without regard to case.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Its text; `None` for `null`. `owner` is Go's path to the structure, for the message.
    pub(crate) fn string(&self, owner: &str) -> Result<Option<String>, BadJson> {
        self.typed(owner, "string", "string", |literal| Some(string::meaning(literal)))
    }

    /// As [`Field::string`], a truth value.
    pub(crate) fn boolean(&self, owner: &str) -> Result<Option<bool>, BadJson> {
        self.typed(owner, "bool", "bool", |literal| Some(literal == b"true"))
    }

    /// As [`Field::string`], an integer that is written as one.
    pub(crate) fn integer(&self, owner: &str) -> Result<Option<i64>, BadJson> {
        self.typed(owner, "number", "int64", |literal| std::str::from_utf8(literal).ok()?.parse().ok())
    }

    /// As [`Field::integer`], or `true` for 1 and `false` for 0.
    pub(crate) fn flag(&self, owner: &str) -> Result<Option<i64>, BadJson> {
        self.boolean(owner).map(|flag| flag.map(i64::from)).or_else(|_| self.integer(owner))
    }

    /// As [`Field::string`], a number of single precision.
    pub(crate) fn float32(&self, owner: &str) -> Result<Option<f32>, BadJson> {
        self.typed(owner, "number", "float32", |literal| {
            std::str::from_utf8(literal).ok()?.parse().ok().filter(|number: &f32| number.is_finite())
        })
    }

    /// The fields of its object; none for `null`.
    pub(crate) fn fields(&self, owner: &str, wanted: &str) -> Result<Vec<Field>, BadJson> {
        self.value.fields_at(&self.place(owner), wanted)
    }

    /// The items of its array; none for `null`.
    pub(crate) fn items(&self, owner: &str, wanted: &str) -> Result<Vec<Json>, BadJson> {
        self.value.items_at(&self.place(owner), wanted)
    }

    fn typed<T>(
        &self,
        owner: &str,
        kind: &str,
        wanted: &str,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, BadJson> {
        match self.value.kind() {
            "null" => return Ok(None),
            found if found != kind => return Err(self.value.mismatch(&self.place(owner), wanted)),
            _ => {}
        }
        let literal = &self.value.0;
        read(literal).map(Some).ok_or_else(|| BadJson::Mismatch {
            value: format!("{kind} {}", String::from_utf8_lossy(literal)),
            place: self.place(owner),
            wanted: wanted.to_owned(),
        })
    }

    fn place(&self, owner: &str) -> String {
        format!("struct field {owner}.{}", self.key)
    }
}

/// Without case. Two letters beyond ASCII count as capitals of ASCII letters.
fn folded(letter: char) -> char {
    match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    }
}

#[cfg(test)]
impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self(value.to_string().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &'static str) -> Vec<Field> {
        Json::first_of(&Bytes::from_static(text.as_bytes())).expect("a value").fields("Toxic").expect("an object")
    }

    #[test]
    fn fields_come_in_order_and_match_without_case() {
        let all = fields(r#" { "Rate" : 5 , "rate":6,"n\u0061me":null,"li\u017ften":{"a":[1,"}"]} } "#);
        assert_eq!(all.iter().map(Field::key).collect::<Vec<_>>(), ["rate", "rate", "name", "listen"]);
        assert_eq!((all[0].integer("Toxic"), all[1].integer("Toxic")), (Ok(Some(5)), Ok(Some(6))));
        let flags = fields(r#"{"a": 5, "b": true, "c": false, "d": null, "e": "x"}"#);
        let flags: Vec<_> = flags.iter().map(|field| field.flag("Toxic").ok()).collect();
        assert_eq!(flags, [Some(Some(5)), Some(Some(1)), Some(Some(0)), Some(None), None]);
        assert_eq!((all[2].string("Toxic"), all[2].boolean("Toxic")), (Ok(None), Ok(None)));
        let inner = all[3].fields("Toxic", "X").expect("an object");
        assert_eq!(inner[0].items("X", "[]Y").expect("an array").len(), 2);
        assert_eq!(fields("null"), []);
        assert_eq!(fields("{ }"), []);
    }

    #[test]
    fn wrong_types_are_told_in_gos_words() {
        let told = |text, read: fn(&Field) -> Result<(), BadJson>| read(&fields(text)[0]).expect_err("bad").to_string();
        let integer = |field: &Field| field.integer("T").map(drop);
        let place = "json: cannot unmarshal number 1.0 into Go struct field T.rate of type int64";
        assert_eq!(told(r#"{"rate":1.0}"#, integer), place);
        let huge = "json: cannot unmarshal number 9223372036854775808 into Go struct field T.rate of type int64";
        assert_eq!(told(r#"{"rate":9223372036854775808}"#, integer), huge);
        let number = "json: cannot unmarshal number into Go struct field .name of type string";
        assert_eq!(told(r#"{"NAME":3}"#, |field| field.string("").map(drop)), number);
        let wide = "json: cannot unmarshal number 1e39 into Go struct field T.toxicity of type float32";
        assert_eq!(told(r#"{"toxicity":1e39}"#, |field| field.float32("T").map(drop)), wide);
        let list = Json::from(serde_json::json!([]));
        let error = list.fields("toxiproxy.Proxy").expect_err("no object").to_string();
        assert_eq!(error, "json: cannot unmarshal array into Go value of type toxiproxy.Proxy");
    }
}
