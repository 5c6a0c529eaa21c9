//! Multipart bodies: reading one never panics, returns no more bytes than received, and does not depend on the sizes of received
//! pieces. A written body can be read back.

#![no_main]

use diwan_couch::Multipart;
use libfuzzer_sys::fuzz_target;
use std::io::{self, Read};

/// A reader that returns the bytes in pieces of `size`.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(self.1).min(out.len());
        out[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

/// The parts, and whether the body ended correctly.
fn read(body: &[u8], size: usize) -> (Vec<Vec<u8>>, bool) {
    let mut parts = Vec::new();
    let Ok(mut reader) = Multipart::new(Slow(body, size), "b") else { return (parts, false) };
    loop {
        match reader.next_part() {
            Ok(Some(_)) => {}
            Ok(None) => return (parts, true),
            Err(_) => return (parts, false),
        }
        match reader.read_part(usize::MAX - 1) {
            Ok(part) => parts.push(part.unwrap_or_default()),
            Err(_) => return (parts, false),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let whole = read(data, usize::MAX);
    assert!(whole.0.iter().map(Vec::len).sum::<usize>() <= data.len());
    for size in [1, 3, 64] {
        assert_eq!(read(data, size), whole);
    }
    // The same bytes as the content of parts, if they do not contain the end of a part.
    let contents: Vec<&[u8]> = data.split(|&byte| byte == 0).collect();
    if contents.iter().any(|content| content.windows(3).any(|window| window == b"--b")) {
        return;
    }
    let mut body = Vec::new();
    for content in &contents {
        body.extend_from_slice(b"--b\r\n\r\n");
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--b--");
    let (parts, complete) = read(&body, 7);
    assert!(complete && parts.iter().map(Vec::as_slice).eq(contents));
});
