//! The elements of one long array of a body, one at a time as the body arrives.
//!
//! `{"new_edits":false,"docs":[{…},{…}]}` may be larger than memory. The splitter is fed pieces of it and gives each
//! complete element of the array as text; the members beside the array are kept together, as an object without the
//! array. It finds where values end and leaves it to the reader to find out whether they are JSON.
//!
//! Held is at most one element or member (bounded), the piece that was fed last, and the other members (bounded).

use super::{ErrorKind, JsonError};

/// What is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The brace that opens the body.
    Start,
    /// A member's name, or with `first` the end of the body.
    Name { first: bool },
    /// The colon after the name that lies at the front of what is pending.
    Colon,
    /// The value of a member.
    Value,
    /// A comma or the end of the body.
    AfterValue,
    /// An element of the array, or with `first` its end.
    Element { first: bool },
    /// A comma or the end of the array.
    AfterElement,
    /// Nothing but space.
    End,
}

/// How far the scan of one value has come.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    depth: usize,
    string: bool,
    escape: bool,
    /// A number or a word: it ends before what cannot belong to it.
    plain: bool,
}

/// Splits one body.
#[derive(Debug)]
pub struct ArraySplitter {
    array: String,
    limit: usize,
    state: State,
    /// What was fed and is not done with.
    pending: Vec<u8>,
    /// How much of it is done with.
    done: usize,
    /// How much of it was scanned.
    at: usize,
    /// How many bytes were done with before what is pending.
    before: usize,
    scan: Option<Scan>,
    /// The members other than the array.
    others: Vec<u8>,
    /// Where the name of the member at hand begins in `others`, quotes included.
    name: usize,
    found: bool,
}

impl ArraySplitter {
    /// Splits the array that is the member `array` of the body. Elements, and all other members together, may take
    /// `limit` bytes.
    pub fn new(array: &str, limit: usize) -> ArraySplitter {
        ArraySplitter {
            array: array.to_owned(),
            limit,
            state: State::Start,
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

    /// Takes the next piece of the body. Call [`ArraySplitter::next_element`] until it gives `None` before the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        self.pending.drain(..self.done);
        self.before += self.done;
        self.at -= self.done;
        self.done = 0;
        self.pending.extend_from_slice(piece);
    }

    /// The text of the next element; `None` when more of the body is needed, or at its end.
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
                    State::Element { .. } => {
                        self.state = State::AfterElement;
                        return Ok(Some(&self.pending[element]));
                    }
                    State::Name { .. } => {
                        if self.others.len() > 1 {
                            self.others.push(b',');
                        }
                        self.name = self.others.len();
                        self.keep(element)?;
                        self.state = State::Colon;
                    }
                    _ => {
                        self.keep(element)?;
                        self.state = State::AfterValue;
                    }
                }
                continue;
            }
            let Some(byte) = self.next_byte() else { return Ok(None) };
            self.step(byte)?;
        }
    }

    /// Whether the array was met so far.
    pub fn found(&self) -> bool {
        self.found
    }

    /// The members before the array, as an object's text without its closing brace, while elements are taken.
    pub fn members(&self) -> &[u8] {
        &self.others
    }

    /// The members other than the array, as an object's text, when the whole body was fed and all elements taken. If
    /// the member of the array's name was no array, it is among them.
    pub fn finish(mut self) -> Result<Vec<u8>, JsonError> {
        if self.state != State::End {
            return Err(self.error("unexpected end of text"));
        }
        self.others.push(b'}');
        Ok(std::mem::take(&mut self.others))
    }

    /// The next byte that is not space, not yet taken.
    fn next_byte(&mut self) -> Option<u8> {
        let space =
            self.pending[self.at..].iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
        self.at = space.map_or(self.pending.len(), |space| self.at + space);
        self.done = self.at;
        self.pending.get(self.at).copied()
    }

    /// Takes a byte between values.
    fn step(&mut self, byte: u8) -> Result<(), JsonError> {
        let next = match (self.state, byte) {
            (State::Start, b'{') => State::Name { first: true },
            (State::Name { first: true } | State::AfterValue, b'}') => State::End,
            (State::AfterValue, b',') => State::Name { first: false },
            (State::Element { first: true } | State::AfterElement, b']') => State::AfterValue,
            (State::AfterElement, b',') => State::Element { first: false },
            (State::Name { .. }, b'"') => return self.begin(byte),
            (State::Colon, b':') => {
                self.others.push(b':');
                State::Value
            }
            (State::Value, b'[') if self.names_the_array() => {
                if std::mem::replace(&mut self.found, true) {
                    return Err(self.error(&format!("member '{}' occurs twice", self.array)));
                }
                // Its name and colon are not among the others, nor the comma before it.
                self.others.truncate((self.name - 1).max(1));
                State::Element { first: true }
            }
            (State::Value | State::Element { .. }, _) => return self.begin(byte),
            (State::Start, _) => return Err(self.error("expected an object")),
            (State::Name { .. }, _) => return Err(self.error("expected a name in quotes")),
            (State::Colon, _) => return Err(self.error("expected a colon")),
            (State::AfterValue, _) => return Err(self.error("expected , or }")),
            (State::AfterElement, _) => return Err(self.error("expected , or ]")),
            (State::End, _) => return Err(self.error("unexpected text after the value")),
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

    /// Goes on with a value; whether it ends before `self.at`.
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
        if self.at - self.done > self.limit {
            let message = format!("more than {} bytes", self.limit);
            return Err(JsonError::new(ErrorKind::Size, self.before + self.done, message));
        }
        self.scan = if ended { None } else { Some(scan) };
        Ok(ended)
    }

    /// Whether the member at hand is the array's: its name may be escaped.
    fn names_the_array(&self) -> bool {
        let name = &self.others[self.name..self.others.len() - 1];
        let value = super::parse_value(name, super::Limits::default());
        value.is_ok_and(|value| value.as_value().as_str() == Some(&self.array))
    }

    /// Keeps a part of another member.
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
