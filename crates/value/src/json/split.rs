//! Splits one long array of a request body into its elements as the body arrives.
//!
//! `{"new_edits":false,"docs":[{…},{…}]}` may be larger than memory. The caller feeds pieces of it to the splitter and
//! takes each complete array element as text. The splitter collects the other members into an object without the array.
//! It only finds where values end; the reader checks their syntax.
//!
//! The splitter holds at most one element or member (limited in size), the last piece fed, and the other members
//! (limited in size).

use super::{ErrorKind, JsonError};

/// The token that the splitter expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SplitState {
    /// The brace that opens the body.
    Start,
    /// A member's name, or the end of the body if `first`.
    Name { first: bool },
    /// The colon after the name at the front of `pending`.
    Colon,
    /// The value of a member.
    Value,
    /// A comma or the end of the body.
    AfterValue,
    /// An element of the array, or the end of the array if `first`.
    Element { first: bool },
    /// A comma or the end of the array.
    AfterElement,
    /// Only white space.
    End,
}

/// The progress of the scan of one value.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    depth: usize,
    string: bool,
    escape: bool,
    /// The value is a number or a word, which ends at the first byte that cannot belong to it.
    plain: bool,
}

/// The splitter of one body.
#[derive(Debug)]
pub struct ArraySplitter {
    array: String,
    limit: usize,
    state: SplitState,
    /// Bytes that were fed and not yet consumed.
    pending: Vec<u8>,
    /// How many bytes of `pending` are consumed.
    done: usize,
    /// How many bytes of `pending` are scanned.
    at: usize,
    /// How many bytes of the body were removed from the front of `pending`.
    before: usize,
    scan: Option<Scan>,
    /// The members other than the array.
    others: Vec<u8>,
    /// Where the name of the current member begins in `others`, including its quote.
    name: usize,
    found: bool,
}

impl ArraySplitter {
    /// A splitter for the array in the member `array` of the body. `limit` bounds the bytes of an element, and of all
    /// other members together.
    pub fn new(array: &str, limit: usize) -> ArraySplitter {
        ArraySplitter {
            array: array.to_owned(),
            limit,
            state: SplitState::Start,
            pending: Vec::new(),
            done: 0,
            at: 0,
            before: 0,
            scan: None,
            others: vec![b'{'],
            name: 1,
            found: false,
        }
    }

    /// Adds the next piece of the body. The caller must call [`ArraySplitter::next_element`] until it returns `None`
    /// before it feeds another piece.
    pub fn feed(&mut self, piece: &[u8]) {
        self.pending.drain(..self.done);
        self.before += self.done;
        self.at -= self.done;
        self.done = 0;
        self.pending.extend_from_slice(piece);
    }

    /// The text of the next element; `None` if more of the body is needed, or at its end.
    pub fn next_element(&mut self) -> Result<Option<&[u8]>, JsonError> {
        loop {
            if let Some(scan) = self.scan {
                let start = self.done;
                if !self.scan_on(scan)? {
                    return Ok(None);
                }
                self.done = self.at;
                let element = start..self.at;
                match self.state {
                    SplitState::Element { .. } => {
                        self.state = SplitState::AfterElement;
                        return Ok(Some(&self.pending[element]));
                    }
                    SplitState::Name { .. } => {
                        if self.others.len() > 1 {
                            self.others.push(b',');
                        }
                        self.name = self.others.len();
                        self.keep(element)?;
                        self.state = SplitState::Colon;
                    }
                    _ => {
                        self.keep(element)?;
                        self.state = SplitState::AfterValue;
                    }
                }
                continue;
            }
            let Some(byte) = self.next_byte() else { return Ok(None) };
            self.step(byte)?;
        }
    }

    /// Whether the array has begun.
    pub fn found(&self) -> bool {
        self.found
    }

    /// The members before the array, as the text of an object without its closing brace. Valid while elements are
    /// taken.
    pub fn members(&self) -> &[u8] {
        &self.others
    }

    /// The members other than the array, as the text of an object. To be called when the whole body was fed and all
    /// elements were taken. If the member `array` is not an array, it is among them.
    pub fn finish(mut self) -> Result<Vec<u8>, JsonError> {
        if self.state != SplitState::End {
            return Err(self.error("unexpected end of text"));
        }
        self.others.push(b'}');
        Ok(std::mem::take(&mut self.others))
    }

    /// The next byte that is not white space, without consuming it.
    fn next_byte(&mut self) -> Option<u8> {
        let space =
            self.pending[self.at..].iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
        self.at = space.map_or(self.pending.len(), |space| self.at + space);
        self.done = self.at;
        self.pending.get(self.at).copied()
    }

    /// Consumes a byte between values.
    fn step(&mut self, byte: u8) -> Result<(), JsonError> {
        let next = match (self.state, byte) {
            (SplitState::Start, b'{') => SplitState::Name { first: true },
            (SplitState::Name { first: true } | SplitState::AfterValue, b'}') => SplitState::End,
            (SplitState::AfterValue, b',') => SplitState::Name { first: false },
            (SplitState::Element { first: true } | SplitState::AfterElement, b']') => SplitState::AfterValue,
            (SplitState::AfterElement, b',') => SplitState::Element { first: false },
            (SplitState::Name { .. }, b'"') => return self.begin(byte),
            (SplitState::Colon, b':') => {
                self.others.push(b':');
                SplitState::Value
            }
            (SplitState::Value, b'[') if self.names_the_array() => {
                if std::mem::replace(&mut self.found, true) {
                    return Err(self.error(&format!("member '{}' occurs twice", self.array)));
                }
                // Removes the name, its colon and the comma before it from the other members.
                self.others.truncate((self.name - 1).max(1));
                SplitState::Element { first: true }
            }
            (SplitState::Value | SplitState::Element { .. }, _) => return self.begin(byte),
            (SplitState::Start, _) => return Err(self.error("expected an object")),
            (SplitState::Name { .. }, _) => return Err(self.error("expected a name in quotes")),
            (SplitState::Colon, _) => return Err(self.error("expected a colon")),
            (SplitState::AfterValue, _) => return Err(self.error("expected , or }")),
            (SplitState::AfterElement, _) => return Err(self.error("expected , or ]")),
            (SplitState::End, _) => return Err(self.error("unexpected text after the value")),
        };
        self.state = next;
        self.at += 1;
        self.done = self.at;
        Ok(())
    }

    /// Begins to scan the value whose first byte is `byte`.
    fn begin(&mut self, byte: u8) -> Result<(), JsonError> {
        let scan = match byte {
            b'"' => Scan { string: true, ..Scan::default() },
            b'{' | b'[' => Scan { depth: 1, ..Scan::default() },
            b'-' | b'0'..=b'9' | b'a'..=b'z' => Scan { plain: true, ..Scan::default() },
            _ => return Err(self.error("expected a value")),
        };
        self.at += 1;
        self.scan = Some(scan);
        Ok(())
    }

    /// Continues to scan a value. Returns whether it ends before `self.at`.
    fn scan_on(&mut self, mut scan: Scan) -> Result<bool, JsonError> {
        let mut ended = false;
        while let Some(&byte) = self.pending.get(self.at) {
            if scan.plain {
                if matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t') {
                    ended = true;
                    break;
                }
                self.at += 1;
            } else if scan.escape {
                scan.escape = false;
                self.at += 1;
            } else if scan.string {
                let rest = &self.pending[self.at..];
                match memchr::memchr2(b'"', b'\\', rest) {
                    Some(plain) => {
                        self.at += plain + 1;
                        scan.escape = rest[plain] == b'\\';
                        scan.string = scan.escape;
                    }
                    None => self.at = self.pending.len(),
                }
                ended = !scan.string && scan.depth == 0;
            } else {
                match byte {
                    b'"' => scan.string = true,
                    b'{' | b'[' => scan.depth += 1,
                    b'}' | b']' => scan.depth -= 1,
                    _ => {}
                }
                self.at += 1;
                ended = scan.depth == 0;
            }
            if ended {
                break;
            }
        }
        // Checked after each piece, so a huge element fails early instead of filling the memory.
        if self.at - self.done > self.limit {
            let message = format!("more than {} bytes", self.limit);
            return Err(JsonError::new(ErrorKind::Size, self.before + self.done, message));
        }
        self.scan = if ended { None } else { Some(scan) };
        Ok(ended)
    }

    /// Whether the current member is the array. Its name may contain escapes.
    fn names_the_array(&self) -> bool {
        let name = &self.others[self.name..self.others.len() - 1];
        let value = super::parse_value(name, super::Limits::default());
        value.is_ok_and(|value| value.as_value().as_str() == Some(&self.array))
    }

    /// Appends a part of another member to `others`.
    fn keep(&mut self, part: std::ops::Range<usize>) -> Result<(), JsonError> {
        self.others.extend_from_slice(&self.pending[part]);
        if self.others.len() > self.limit {
            return Err(JsonError::new(
                ErrorKind::Size,
                self.before + self.at,
                format!("more than {} bytes", self.limit),
            ));
        }
        Ok(())
    }

    fn error(&self, message: &str) -> JsonError {
        JsonError::new(ErrorKind::Syntax, self.before + self.at, message)
    }
}
