//! Where a value ends, or what is wrong before that.

use std::ops::Range;

use super::error::BadJson;

/// How deep values may be nested.
const MAX_DEPTH: usize = 10_000;

/// Where the first value of a text stands.
///
/// # Errors
///
/// What is wrong with it. What follows it is not looked at.
pub(super) fn first_value(text: &[u8]) -> Result<Range<usize>, BadJson> {
    let mut scanner = Scanner { text, at: 0 };
    let begin = match scanner.solid() {
        Ok(_) => scanner.at,
        Err(_) => return Err(BadJson::Empty),
    };
    scanner.value()?;
    Ok(begin..scanner.at)
}

/// A position in a text.
struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
}

impl Scanner<'_> {
    /// Any value, containers with all that is in them. Without recursion: the depth is the sender's choice.
    fn value(&mut self) -> Result<(), BadJson> {
        let mut open = Vec::new();
        loop {
            let first = self.solid()?;
            match first {
                b'{' | b'[' if open.len() == MAX_DEPTH => return Err(unexpected(first, "exceeded max depth")),
                b'{' | b'[' => {
                    self.at += 1;
                    if self.solid()? == closing(first) {
                        self.at += 1;
                    } else {
                        open.push(first);
                        if first == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                }
                b'"' => self.string()?,
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                other => return Err(unexpected(other, "looking for beginning of value")),
            }
            if !self.goes_on(&mut open)? {
                return Ok(());
            }
        }
    }

    /// After a value: closes the containers that end with it; whether another value follows.
    fn goes_on(&mut self, open: &mut Vec<u8>) -> Result<bool, BadJson> {
        while let Some(around) = open.last().copied() {
            let byte = self.solid()?;
            self.at += 1;
            if byte == closing(around) {
                open.pop();
            } else if byte != b',' {
                let is_object = around == b'{';
                return Err(unexpected(
                    byte,
                    if is_object { "after object key:value pair" } else { "after array element" },
                ));
            } else {
                if around == b'{' {
                    self.key()?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The name of a field, with its colon.
    fn key(&mut self) -> Result<(), BadJson> {
        match self.solid()? {
            b'"' => self.string()?,
            other => return Err(unexpected(other, "looking for beginning of object key string")),
        }
        match self.solid()? {
            b':' => self.at += 1,
            other => return Err(unexpected(other, "after object key")),
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), BadJson> {
        self.at += 1;
        loop {
            match self.take()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                control @ 0..=0x1f => return Err(unexpected(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), BadJson> {
        match self.take()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => {
                for _ in 0..4 {
                    let digit = self.take()?;
                    if !digit.is_ascii_hexdigit() {
                        return Err(unexpected(digit, "in \\u hexadecimal character escape"));
                    }
                }
                Ok(())
            }
            other => Err(unexpected(other, "in string escape code")),
        }
    }

    fn number(&mut self) -> Result<(), BadJson> {
        if self.text[self.at] == b'-' {
            self.at += 1;
        }
        let first = self.digit("in numeric literal")?;
        if first != b'0' {
            self.digits();
        }
        if self.next_is(b".") {
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if self.next_is(b"eE") {
            self.at += 1;
            if self.next_is(b"+-") {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digit(&mut self, context: &str) -> Result<u8, BadJson> {
        let digit = self.take()?;
        if digit.is_ascii_digit() { Ok(digit) } else { Err(unexpected(digit, context)) }
    }

    fn digits(&mut self) {
        while self.next_is(b"0123456789") {
            self.at += 1;
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), BadJson> {
        for expected in word.bytes() {
            let byte = self.take()?;
            if byte != expected {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(unexpected(byte, &context));
            }
        }
        Ok(())
    }

    /// The next byte that is no space, still to be taken.
    fn solid(&mut self) -> Result<u8, BadJson> {
        while self.next_is(b" \t\r\n") {
            self.at += 1;
        }
        self.text.get(self.at).copied().ok_or(BadJson::Cut)
    }

    fn take(&mut self) -> Result<u8, BadJson> {
        let byte = self.text.get(self.at).copied().ok_or(BadJson::Cut)?;
        self.at += 1;
        Ok(byte)
    }

    fn next_is(&self, any_of: &[u8]) -> bool {
        self.text.get(self.at).is_some_and(|byte| any_of.contains(byte))
    }
}

fn closing(opening: u8) -> u8 {
    if opening == b'{' { b'}' } else { b']' }
}

fn unexpected(byte: u8, context: &str) -> BadJson {
    BadJson::Unexpected { byte, context: context.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        first_value(text.as_bytes()).expect_err("bad").to_string()
    }

    #[test]
    fn the_first_value_is_found() {
        for (text, value) in [
            (r#" {"a":[1,{"b":[]}]} trailing"#, r#"{"a":[1,{"b":[]}]}"#),
            ("1.5e-7x", "1.5e-7"),
            ("01", "0"),
            (r#""a\"\u00e9b"""#, r#""a\"\u00e9b""#),
            ("null1", "null"),
        ] {
            let range = first_value(text.as_bytes()).expect("a value");
            assert_eq!(&text[range], value);
        }
    }

    #[test]
    fn what_is_wrong_is_told_in_gos_words() {
        // The rest is in the parity suite, where a real server says it.
        assert_eq!(told(" \n"), "EOF");
        assert_eq!(told("{\"a\":"), "unexpected EOF");
        assert_eq!(told("}"), "invalid character '}' looking for beginning of value");
        assert_eq!(told("{'"), "invalid character '\\'' looking for beginning of object key string");
        assert_eq!(told("[tru]"), "invalid character ']' in literal true (expecting 'e')");
    }

    #[test]
    fn the_depth_is_bounded_and_no_recursion() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        let deepest = nested(MAX_DEPTH);
        assert_eq!(first_value(deepest.as_bytes()), Ok(0..deepest.len()));
        assert_eq!(told(&nested(MAX_DEPTH + 1)), "invalid character '[' exceeded max depth");
    }
}
