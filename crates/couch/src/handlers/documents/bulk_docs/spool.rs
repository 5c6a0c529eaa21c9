//! A buffer for the rows of an answer: in memory while it is small, else in a temporary file.

use crate::http::{Flow, Response};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// How many bytes are kept in memory.
const HELD_BYTES: usize = 8 << 20;

/// A JSON array that is being written.
pub(super) struct Spool {
    directory: Option<PathBuf>,
    buffer: Vec<u8>,
    /// The rows before the buffer.
    file: Option<File>,
    is_empty: bool,
}

impl Spool {
    /// Creates an empty array, which may spill to a file in `directory`.
    pub(super) fn new(directory: Option<PathBuf>) -> Spool {
        Spool { directory, buffer: vec![b'['], file: None, is_empty: true }
    }

    /// Returns the buffer to append the next row to; call [`Spool::row_done`] afterwards.
    pub(super) fn row(&mut self) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_empty) {
            self.buffer.push(b',');
        }
        &mut self.buffer
    }

    /// Completes a row; spills the buffer if it is large.
    pub(super) fn row_done(&mut self) -> io::Result<()> {
        if self.buffer.len() < HELD_BYTES {
            return Ok(());
        }
        if self.file.is_none() {
            let made = match &self.directory {
                Some(directory) => tempfile::tempfile_in(directory),
                None => tempfile::tempfile(),
            };
            self.file = Some(made.map_err(io::Error::other)?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&self.buffer)?;
        }
        self.buffer.clear();
        Ok(())
    }

    /// Converts the array into a response.
    pub(super) fn into_response(mut self) -> io::Result<Response> {
        self.buffer.push(b']');
        let Some(mut file) = self.file else { return Ok(Response::json_text(200, self.buffer)) };
        file.seek(SeekFrom::Start(0))?;
        let mut file = Some(file);
        Ok(Response::rows(move |out| {
            if let Some(file) = file.take() {
                out.splice(file);
            }
            out.write_all(&self.buffer)?;
            out.write_all(b"\n")?;
            Ok(Flow::Done)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ResponseBody;

    #[test]
    fn spool_spills_large_arrays_to_a_file() {
        for (count, in_file) in [(0, false), (2, false), (200_000, true)] {
            let mut spool = Spool::new(None);
            for _ in 0..count {
                spool.row().extend_from_slice(&[b'7'; 60]);
                spool.row_done().unwrap();
            }
            assert_eq!(spool.file.is_some(), in_file, "{count}");
            assert!(spool.buffer.len() <= HELD_BYTES);
            let response = spool.into_response().unwrap();
            assert_eq!(matches!(response.body, ResponseBody::Rows(_)), in_file);
            if let ResponseBody::Bytes(bytes) = response.body {
                assert_eq!(bytes.len(), (count * 61).max(1) + 2);
            }
        }
    }
}
