//! JSON as Go's `encoding/json` reads it, because clients of Toxiproxy see it: its messages word for word, and what it
//! takes. Field names match without regard to case, a field given twice counts twice in its order, `null` leaves a
//! field alone, unknown fields are ignored, text after the first value is ignored, a number with a fraction is no
//! integer, and what is no Unicode becomes U+FFFD.
//!
//! A text is checked as a whole first; its values are read where they stand, so nothing is built of what nobody asks
//! for, however deep it is.
//!
//! # Layout
//!
//! | module | what it holds |
//! | --- | --- |
//! | `error` | what is wrong with a text, in Go's words |
//! | `scan` | where a value ends: the grammar |
//! | `string` | what a string literal means |
//! | `value` | values, their fields and types |

mod error;
mod scan;
mod string;
mod value;

pub(crate) use error::BadJson;
pub(crate) use value::{Field, Json};
