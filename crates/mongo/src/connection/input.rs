//! The receive buffer of a connection. It grows with the bytes that arrive, not with the lengths that messages claim.

use crate::connection::room::{Permit, is_long};
use crate::wire::{HEADER_LEN, Header};
use std::io;

/// The largest buffer that is kept for the next message.
const KEPT: usize = 256 * 1024;

/// Received bytes that are not handled yet.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// The received bytes, and free space for more.
    bytes: Vec<u8>,
    /// The number of received bytes.
    filled: usize,
    /// The permit to receive the first message, if that is long.
    permit: Option<Permit>,
}

impl Input {
    /// Whether the buffer holds no bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// The number of received bytes.
    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    /// The length of the first message, if the whole message has been received.
    pub(crate) fn whole_message(&self) -> io::Result<Option<usize>> {
        match Header::read(&self.bytes[..self.filled]) {
            Some(Ok(header)) => Ok(Some(header.length).filter(|length| *length <= self.filled)),
            Some(Err(error)) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            None => Ok(None),
        }
    }

    /// The length that the first message claims to have.
    pub(crate) fn claimed_length(&self) -> Option<usize> {
        Header::read(&self.bytes[..self.filled]).and_then(Result::ok).map(|header| header.length)
    }

    /// The length of the first message, if it is long and has no permit yet.
    pub(crate) fn needs_permit(&self) -> Option<usize> {
        let header = Header::read(&self.bytes[..self.filled])?.ok()?;
        (is_long(header.length) && self.permit.is_none()).then_some(header.length)
    }

    /// Sets the permit to receive the first message.
    pub(crate) fn set_permit(&mut self, permit: Permit) {
        self.permit = Some(permit);
    }

    /// Whether a long message is being received.
    pub(crate) fn has_permit(&self) -> bool {
        self.permit.is_some()
    }

    /// The first `length` bytes.
    pub(crate) fn message(&self, length: usize) -> &[u8] {
        &self.bytes[..length]
    }

    /// Free space to read into: what the first message lacks, but no more than has been received, and at least `least`
    /// bytes. So a claimed length alone allocates nothing.
    pub(crate) fn room(&mut self, least: usize) -> &mut [u8] {
        let claimed = Header::read(&self.bytes[..self.filled]).and_then(Result::ok);
        let missing = claimed.map_or(HEADER_LEN, |header| header.length.saturating_sub(self.filled));
        let end = self.filled + missing.min(self.filled).max(least);
        if self.bytes.len() < end {
            // Exactly that: with amortized growth a long message could have a buffer of twice its length.
            self.bytes.reserve_exact(end - self.bytes.len());
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.filled..end]
    }

    /// Adds bytes that were read into the free space.
    pub(crate) fn advance(&mut self, read: usize) {
        self.filled = (self.filled + read).min(self.bytes.len());
    }

    /// Removes a handled message, and shrinks a buffer larger than [`KEPT`].
    pub(crate) fn consume(&mut self, length: usize) {
        self.bytes.copy_within(length..self.filled, 0);
        self.filled -= length;
        self.permit = None;
        if self.bytes.len() > KEPT {
            self.bytes.truncate(self.filled);
            self.bytes.shrink_to_fit();
        }
    }

    /// Frees the unused space.
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
    fn whole_message_returns_messages_one_after_the_other() {
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
    fn claimed_length_allocates_no_memory() {
        let mut input = Input::default();
        let mut header = [0; 16];
        header[..4].copy_from_slice(&48_000_000u32.to_le_bytes());
        feed(&mut input, &header);
        assert!(input.room(512).len() <= 512);
        feed(&mut input, &[0; 1000]);
        assert!(input.bytes.len() < 4096);
    }

    #[test]
    fn invalid_length_is_an_error() {
        let mut input = Input::default();
        feed(&mut input, &[3; 16]);
        assert!(input.whole_message().is_err());
    }
}
