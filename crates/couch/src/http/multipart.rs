//! Multipart bodies: a streaming reader, and helpers for writers.
//!
//! The reader keeps one buffer and searches the delimiter in it. A part's body is read through [`Read`] and may
//! itself be multipart. Memory is bounded: by [`MAX_HEADERS`] for a part's headers, by [`MAX_BOUNDARY`] for the
//! boundary, and by the buffer for everything else.

use crate::uuids;
use memchr::memmem::{self, Finder};
use std::io::{self, Read};

/// The largest size of one part's headers.
const MAX_HEADERS: usize = 16 << 10;
/// The longest boundary. The standard allows 70 bytes, but some CouchDB clients generate longer ones.
const MAX_BOUNDARY: usize = 200;
/// How many bytes are read at once.
const PIECE: usize = 64 << 10;

/// Reads the parts of a body.
pub struct Multipart<R> {
    inner: R,
    /// Searches the delimiter: a line end, two hyphens, the boundary.
    delimiter: Finder<'static>,
    buffer: Vec<u8>,
    /// The position of the first unread byte in the buffer.
    at: usize,
    /// No delimiter begins before this position.
    clear: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In a part's body, or in the preamble before the first part.
    Body,
    /// At a delimiter, which begins at `at`.
    Delimiter,
    /// After the last delimiter.
    End,
}

/// The headers of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartHeaders {
    pairs: Vec<(String, String)>,
}

impl PartHeaders {
    /// Returns a header by its lower-case name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_str())
    }

    /// Returns the media type in lower case, without parameters.
    pub fn media_type(&self) -> Option<String> {
        Some(media_type(self.get("content-type")?))
    }
}

impl<R: Read> Multipart<R> {
    /// Creates a reader for a body with this boundary.
    pub fn new(inner: R, boundary: &str) -> io::Result<Multipart<R>> {
        if boundary.is_empty() || boundary.len() > MAX_BOUNDARY {
            return Err(invalid("the boundary of a multipart body must have 1 to 200 bytes"));
        }
        let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
        // The first delimiter may lack the preceding line end; adding one makes it look like the others.
        let buffer = b"\r\n".to_vec();
        let delimiter = Finder::new(&delimiter).into_owned();
        Ok(Multipart { inner, delimiter, buffer, at: 0, clear: 0, state: State::Body })
    }

    /// Creates a reader for a body whose content type states the boundary.
    pub fn of_type(inner: R, content_type: &str) -> io::Result<Multipart<R>> {
        let boundary = parameter(content_type, "boundary")
            .ok_or_else(|| invalid("the content type of a multipart body names no boundary"))?;
        Multipart::new(inner, &boundary)
    }

    /// Skips the rest of the current part and returns the headers of the next one; `None` after the last.
    pub fn next_part(&mut self) -> io::Result<Option<PartHeaders>> {
        while self.state == State::Body {
            let length = self.readable()?;
            self.at += length;
        }
        if self.state == State::End {
            return Ok(None);
        }
        self.at += self.delimiter.needle().len();
        // The boundary may be followed by spaces and tabs.
        let mut end = 0;
        loop {
            match self.byte(end)? {
                Some(b' ' | b'\t') if end < MAX_HEADERS => end += 1,
                Some(b'-') if self.byte(end + 1)? == Some(b'-') => {
                    self.state = State::End;
                    return Ok(None);
                }
                Some(b'\r') if self.byte(end + 1)? == Some(b'\n') => break,
                Some(_) => return Err(invalid("a boundary is followed by neither a part nor the end")),
                None => return Err(broken_off()),
            }
        }
        self.at += end;
        let headers = self.headers()?;
        self.clear = self.at;
        self.state = State::Body;
        Ok(Some(headers))
    }

    /// Reads the whole body of a part; `None` if it is longer than `limit`.
    pub fn read_part(&mut self, limit: usize) -> io::Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        self.by_ref().take(limit as u64 + 1).read_to_end(&mut out)?;
        Ok((out.len() <= limit).then_some(out))
    }

    /// Reads the headers of a part. `at` is at the line end before them.
    fn headers(&mut self) -> io::Result<PartHeaders> {
        let mut searched = 0;
        let length = loop {
            let ready = &self.buffer[self.at..];
            if let Some(found) = memmem::find(&ready[searched..], b"\r\n\r\n") {
                break searched + found;
            }
            if ready.len() > MAX_HEADERS {
                return Err(invalid("the headers of a part are longer than 16 KiB"));
            }
            searched = ready.len().saturating_sub(3);
            if !self.fill()? {
                return Err(broken_off());
            }
        };
        let text = String::from_utf8_lossy(&self.buffer[self.at..self.at + length]).into_owned();
        self.at += length + 4;
        let mut headers = PartHeaders::default();
        for line in text.split("\r\n").filter(|line| !line.is_empty()) {
            let Some((name, value)) = line.split_once(':') else {
                return Err(invalid("a header of a part has no colon"));
            };
            headers.pairs.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(headers)
    }

    /// Returns the byte `ahead` positions after the first unread one.
    fn byte(&mut self, ahead: usize) -> io::Result<Option<u8>> {
        while self.buffer.len() <= self.at + ahead {
            if !self.fill()? {
                return Ok(None);
            }
        }
        Ok(self.buffer.get(self.at + ahead).copied())
    }

    /// Returns how many bytes of the part's body are in the buffer; 0 at its end.
    fn readable(&mut self) -> io::Result<usize> {
        let needle = self.delimiter.needle().len();
        loop {
            if self.state != State::Body {
                return Ok(0);
            }
            if self.clear > self.at {
                return Ok(self.clear - self.at);
            }
            if let Some(found) = self.delimiter.find(&self.buffer[self.at..]) {
                self.clear = self.at + found;
                if found == 0 {
                    self.state = State::Delimiter;
                }
                continue;
            }
            // The last bytes may be the beginning of a delimiter.
            self.clear = (self.buffer.len() + 1).saturating_sub(needle).max(self.at);
            if self.clear == self.at && !self.fill()? {
                return Err(broken_off());
            }
        }
    }

    /// Reads more bytes; returns false at the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.at);
        self.clear = self.clear.saturating_sub(self.at);
        self.at = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + PIECE, 0);
        let read = self.inner.read(&mut self.buffer[length..]);
        self.buffer.truncate(length + *read.as_ref().unwrap_or(&0));
        read.map(|count| count > 0)
    }
}

impl<R: Read> Read for Multipart<R> {
    /// Reads the current part's body; returns 0 at its end.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.readable()?.min(out.len());
        out[..count].copy_from_slice(&self.buffer[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn broken_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the multipart body ends before its last boundary")
}

/// Returns a header value's media type in lower case, without parameters.
pub fn media_type(value: &str) -> String {
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns a parameter of a header value, unquoted.
pub fn parameter(value: &str, name: &str) -> Option<String> {
    let mut rest = value.split_once(';')?.1;
    loop {
        let (key, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (text, next) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let (text, next) = after.split_once(';').unwrap_or((after, ""));
                (text.trim().to_owned(), next)
            }
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(text);
        }
        rest = next.trim_start().trim_start_matches(';');
    }
}

/// Returns the text up to the closing quote, unescaped, and the rest.
fn unquote(quoted: &str) -> (String, &str) {
    let mut text = String::new();
    let mut escaped = false;
    for (at, character) in quoted.char_indices() {
        match character {
            _ if escaped => {
                text.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (text, &quoted[at + 1..]),
            _ => text.push(character),
        }
    }
    (text, "")
}

/// Generates a boundary that does not occur in any content.
pub fn boundary() -> String {
    uuids::random()
}

/// Escapes a file name for a quoted header parameter.
pub fn file_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '"' => out.push_str("%22"),
            '\r' => out.push_str("%0D"),
            '\n' => out.push_str("%0A"),
            _ => out.push(character),
        }
    }
    out
}

/// Removes control characters, which could end the header's line.
pub fn header_value(value: &str) -> String {
    value.chars().filter(|character| !character.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns at most this many bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(self.1).min(out.len());
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn parts(body: &[u8], boundary: &str, size: usize) -> io::Result<Vec<(PartHeaders, Vec<u8>)>> {
        let mut reader = Multipart::new(Slow(body, size), boundary)?;
        let mut parts = Vec::new();
        while let Some(headers) = reader.next_part()? {
            parts.push((headers, reader.read_part(1 << 20)?.unwrap_or_default()));
        }
        assert!(reader.next_part()?.is_none());
        Ok(parts)
    }

    #[test]
    fn parts_are_found_with_any_read_size() {
        let body = b"before\r\n--x y\r\nContent-Type: application/json\r\nX-A:b \r\n\r\n{\"a\":\r\n--x }\r\n--x y \r\n\r\n\
                     \r\n--x y\r\n\r\n\r\n--x yz\r\n--x\r\n--x y--after";
        for size in [1, 2, 3, 7, 1000] {
            let found = parts(body, "x y", size);
            // A line that starts with the boundary but continues is refused: the delimiter must end its line.
            assert!(found.is_err(), "{size}");
        }
        let body = b"before\r\n--x y\r\nContent-Type: application/json\r\nX-A:b \r\n\r\n{\"a\":\r\n--x }\r\n--x y \r\n\r\n\
                     \r\n--x y\r\n\r\n\r\n-\r\n--x \r\r\n--x y--after";
        for size in [1, 2, 3, 7, 1000] {
            let found = parts(body, "x y", size).unwrap();
            assert_eq!(found.len(), 3);
            assert_eq!(found[0].0.media_type().as_deref(), Some("application/json"));
            assert_eq!((found[0].0.get("x-a"), found[0].1.as_slice()), (Some("b"), &b"{\"a\":\r\n--x }"[..]));
            assert_eq!(found[1].1, b"");
            assert_eq!(found[2].1, b"\r\n-\r\n--x \r");
        }
    }

    #[test]
    fn parts_can_be_skipped_and_nested() {
        let body = b"--out\r\n\r\nskipped\r\n--out\r\nContent-Type: multipart/related; boundary=\"in\"\r\n\r\n--in\r\n\r\n1\r\n--in\r\n\
                     \r\n2\r\n--in--\r\n--out--";
        let mut outer = Multipart::of_type(&body[..], "multipart/mixed; charset=x; boundary=out").unwrap();
        outer.next_part().unwrap().unwrap();
        let headers = outer.next_part().unwrap().unwrap();
        let mut inner = Multipart::of_type(&mut outer, headers.get("content-type").unwrap()).unwrap();
        inner.next_part().unwrap().unwrap();
        assert!(inner.read_part(0).unwrap().is_none());
        inner.next_part().unwrap().unwrap();
        assert_eq!(inner.read_part(1).unwrap().unwrap(), b"2");
        assert!(inner.next_part().unwrap().is_none());
        assert!(outer.next_part().unwrap().is_none());
    }

    #[test]
    fn truncated_and_oversized_bodies_are_refused() {
        let whole = b"--b\r\nA: b\r\n\r\nbody\r\n--b--";
        for cut in 0..whole.len() - 2 {
            assert!(parts(&whole[..cut], "b", 5).is_err(), "{cut}");
        }
        assert!(parts(whole, "b", 5).is_ok());
        let endless = [b"--b\r\nA: ".as_slice(), &[b'x'; 20_000], b"\r\n\r\n\r\n--b--"].concat();
        assert!(parts(&endless, "b", 1000).is_err());
        assert!(Multipart::new(&b""[..], "").is_err());
        assert!(Multipart::new(&b""[..], &"x".repeat(300)).is_err());
        assert!(Multipart::of_type(&b""[..], "multipart/mixed").is_err());
    }

    #[test]
    fn header_parameters_are_parsed_and_escaped() {
        let value = r#"attachment; filename="a;\"b=c" ; Size=3;x="#;
        assert_eq!(parameter(value, "filename").as_deref(), Some("a;\"b=c"));
        assert_eq!(parameter(value, "size").as_deref(), Some("3"));
        assert_eq!(parameter(value, "x").as_deref(), Some(""));
        assert_eq!(parameter(value, "y"), None);
        assert_eq!(file_name("a\"\r\nb"), "a%22%0D%0Ab");
        assert_eq!(header_value("text/plain\r\nX: y"), "text/plainX: y");
    }
}
