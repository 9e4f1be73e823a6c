//! What a string literal means. Whatever is no Unicode, in bytes or in escapes, becomes U+FFFD.

/// The text of a literal, quotes included, that has been checked.
pub(super) fn meaning(literal: &[u8]) -> String {
    let mut text = String::with_capacity(literal.len());
    let mut rest = literal.get(1..literal.len().saturating_sub(1)).unwrap_or_default();
    while let Some(escape) = rest.iter().position(|byte| *byte == b'\\') {
        push_lossy(&mut text, &rest[..escape]);
        rest = push_escape(&mut text, &rest[escape + 1..]);
    }
    push_lossy(&mut text, rest);
    text
}

/// One U+FFFD for each byte that is no UTF-8, as Go counts them.
fn push_lossy(text: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

/// The character of the escape that `rest` begins with, after its backslash; what follows it.
fn push_escape<'t>(text: &mut String, rest: &'t [u8]) -> &'t [u8] {
    let Some((code, mut tail)) = rest.split_first() else { return rest };
    text.push(match code {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let (unit, after) = code_unit(tail);
            tail = after;
            let pair = after.strip_prefix(b"\\u").map(code_unit);
            let both = pair.and_then(|(low, after)| Some((char::decode_utf16([unit, low]).next()?.ok()?, after)));
            match (char::from_u32(u32::from(unit)), both) {
                (Some(plain), _) => plain,
                (None, Some((wide, after))) => {
                    tail = after;
                    wide
                }
                (None, None) => char::REPLACEMENT_CHARACTER,
            }
        }
        plain => char::from(*plain),
    });
    tail
}

/// Four hexadecimal digits, and what follows them.
fn code_unit(digits: &[u8]) -> (u16, &[u8]) {
    let (digits, tail) = digits.split_at(digits.len().min(4));
    let unit = std::str::from_utf8(digits).ok().and_then(|digits| u16::from_str_radix(digits, 16).ok());
    (unit.unwrap_or_default(), tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_and_what_is_no_unicode_is_replaced() {
        for (literal, text) in [
            (&br#""plain""#[..], "plain"),
            (br#""\b\f\n\r\t\\\/\"\u0041""#, "\u{8}\u{c}\n\r\t\\/\"A"),
            (br#""\ud83d\ude00!""#, "\u{1f600}!"),
            (br#""\ud800\u0041\udc00""#, "\u{fffd}A\u{fffd}"),
            (br#""\ud800\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (br#""\ud800""#, "\u{fffd}"),
            (b"\"a\xe2\x82b\xff\"", "a\u{fffd}\u{fffd}b\u{fffd}"),
        ] {
            assert_eq!(meaning(literal), text);
        }
    }
}
