//! What a connection has received: a buffer that grows only with the bytes that arrive.

use crate::wire::{HEADER_LEN, Header};
use std::io;

/// The largest buffer that is kept for the next message.
const KEPT: usize = 256 * 1024;

/// Bytes that were read and not yet handled.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// What was read, and room for more.
    bytes: Vec<u8>,
    /// How many bytes of it were read.
    filled: usize,
}

impl Input {
    /// Whether nothing waits to be handled.
    pub(crate) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// How many bytes wait to be handled.
    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    /// The length of the message at the front, if the whole of it is there.
    pub(crate) fn whole_message(&self) -> io::Result<Option<usize>> {
        match Header::read(&self.bytes[..self.filled]) {
            Some(Ok(header)) => Ok(Some(header.length).filter(|length| *length <= self.filled)),
            Some(Err(error)) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            None => Ok(None),
        }
    }

    /// The first `length` bytes.
    pub(crate) fn message(&self, length: usize) -> &[u8] {
        &self.bytes[..length]
    }

    /// Room to read into: `least` bytes or more, but never more than has come already. So a claimed length alone takes
    /// no memory.
    pub(crate) fn room(&mut self, least: usize) -> &mut [u8] {
        let claimed = Header::read(&self.bytes[..self.filled]).and_then(Result::ok);
        let missing = claimed.map_or(HEADER_LEN, |header| header.length.saturating_sub(self.filled));
        let end = self.filled + missing.min(self.filled).max(least);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.filled..end]
    }

    /// Notes that so many bytes were read into the room.
    pub(crate) fn advance(&mut self, read: usize) {
        self.filled = (self.filled + read).min(self.bytes.len());
    }

    /// Drops a handled message, and the buffer if it has grown beyond what is worth keeping.
    pub(crate) fn consume(&mut self, length: usize) {
        self.bytes.copy_within(length..self.filled, 0);
        self.filled -= length;
        if self.bytes.len() > KEPT {
            self.bytes.truncate(self.filled);
            self.bytes.shrink_to_fit();
        }
    }

    /// Gives back what holds nothing.
    pub(crate) fn release(&mut self) {
        self.bytes.truncate(self.filled);
        self.bytes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(input: &mut Input, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = input.room(16);
            let read = room.len().min(rest.len());
            room[..read].copy_from_slice(&rest[..read]);
            input.advance(read);
            rest = &rest[read..];
        }
    }

    #[test]
    fn messages_come_out_whole_and_one_after_another() {
        let mut message = [0; 40];
        message[0] = 40;
        let mut input = Input::default();
        feed(&mut input, &message[..39]);
        assert_eq!(input.whole_message().unwrap(), None);
        feed(&mut input, &[message[39], 16, 0, 0, 0]);
        assert_eq!(input.whole_message().unwrap(), Some(40));
        input.consume(40);
        assert_eq!(input.whole_message().unwrap(), None);
        feed(&mut input, &[0; 12]);
        assert_eq!(input.whole_message().unwrap(), Some(16));
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        let mut input = Input::default();
        let mut header = [0; 16];
        header[..4].copy_from_slice(&48_000_000u32.to_le_bytes());
        feed(&mut input, &header);
        assert!(input.room(512).len() <= 512);
        feed(&mut input, &[0; 1000]);
        assert!(input.bytes.len() < 4096);
    }

    #[test]
    fn an_impossible_length_is_an_error() {
        let mut input = Input::default();
        feed(&mut input, &[3; 16]);
        assert!(input.whole_message().is_err());
    }
}
