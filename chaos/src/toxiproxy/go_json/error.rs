//! What is wrong with a text, in Go's words.

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadJson {
    /// There is no value.
    #[error("EOF")]
    Empty,
    /// It ends within a value.
    #[error("unexpected EOF")]
    Cut,
    /// A byte that cannot stand where it does.
    #[error("invalid character {} {context}", quoted(*byte))]
    Unexpected {
        /// The byte.
        byte: u8,
        /// What was being read.
        context: String,
    },
    /// A value of another type than wanted.
    #[error("json: cannot unmarshal {value} into Go {place} of type {wanted}")]
    Mismatch {
        /// The kind of the value; of a number that is out of range, the number too.
        value: String,
        /// `value`, or `struct field` with its path.
        place: String,
        /// Go's name of the type.
        wanted: String,
    },
}

/// A byte as Go shows the character of that number.
fn quoted(byte: u8) -> String {
    let inner = match byte {
        b'\'' => "\\'".to_owned(),
        b'\\' => "\\\\".to_owned(),
        0x07 => "\\a".to_owned(),
        0x08 => "\\b".to_owned(),
        0x0b => "\\v".to_owned(),
        0x0c => "\\f".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        b'\t' => "\\t".to_owned(),
        0..=0x1f | 0x7f => format!("\\x{byte:02x}"),
        0x80..=0xa0 | 0xad => format!("\\u{byte:04x}"),
        _ => char::from(byte).to_string(),
    };
    format!("'{inner}'")
}
