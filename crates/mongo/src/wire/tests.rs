use super::*;
use diwan_value::doc;

/// An `OP_MSG` with these flags and sections.
fn message(flags: u32, sections: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_LEN];
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes.extend_from_slice(sections);
    let checksum = if flags & 1 != 0 { 4 } else { 0 };
    let header = Header { length: bytes.len() + checksum, request_id: 7, opcode: OP_MSG };
    header.write(0, &mut bytes[..HEADER_LEN]);
    bytes
}

fn body() -> Vec<u8> {
    let mut section = vec![0];
    section.extend_from_slice(&doc! { "insert": "c", "$db": "test" }.into_bytes());
    section
}

fn sequence(name: &str, count: i32) -> Vec<u8> {
    let mut content = name.as_bytes().to_vec();
    content.push(0);
    for number in 0..count {
        content.extend_from_slice(&doc! { "n": number }.into_bytes());
    }
    let mut section = vec![1];
    section.extend_from_slice(&(content.len() as u32 + 4).to_le_bytes());
    section.extend_from_slice(&content);
    section
}

fn read_message(bytes: &[u8]) -> Result<usize, WireError> {
    let mut scratch = Vec::new();
    match read(bytes, &mut scratch)?.content {
        Content::Message(message) => {
            Ok(message.sequences.iter().map(|sequence| sequence.documents().count()).sum())
        }
        Content::Query(_) => panic!("an OP_MSG was read as an OP_QUERY"),
    }
}

#[test]
fn read_accepts_body_and_sequences_in_any_order() {
    assert_eq!(read_message(&message(0, &[body(), sequence("documents", 3)].concat())), Ok(3));
    assert_eq!(read_message(&message(0, &[sequence("documents", 2), body()].concat())), Ok(2));
    assert_eq!(read_message(&message(1 << 16, &body())), Ok(0));
}

#[test]
fn invalid_sections_have_mongodb_codes() {
    let code = |sections: &[Vec<u8>]| read_message(&message(0, &sections.concat())).unwrap_err().code();
    assert_eq!(code(&[body(), body()]), 40430);
    assert_eq!(code(&[body(), sequence("a", 1), sequence("a", 1)]), 40431);
    assert_eq!(code(&[body(), vec![9]]), 40432);
    assert_eq!(code(&[body(), sequence("insert", 1)]), 40433);
    assert_eq!(code(&[sequence("a", 1)]), 40587);
    let mut broken = body();
    *broken.last_mut().unwrap() = 1;
    assert_eq!(code(&[broken]), 22);
}

#[test]
fn read_verifies_the_checksum() {
    let mut bytes = message(1, &body());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    assert_eq!(read_message(&bytes), Ok(0));
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(read_message(&bytes), Err(WireError::Checksum));
}

#[test]
fn unknown_flags_and_opcodes_are_fatal() {
    let error = read_message(&message(4, &body())).unwrap_err();
    assert!(error.is_fatal() && error.code() == 223);
    let mut bytes = message(0, &body());
    bytes[12..16].copy_from_slice(&2002i32.to_le_bytes());
    assert_eq!(read_message(&bytes), Err(WireError::Opcode(2002)));
}

#[test]
fn truncated_messages_are_errors() {
    let whole = message(0, &[body(), sequence("documents", 2)].concat());
    for length in 0..whole.len() {
        let mut cut = whole[..length].to_vec();
        assert!(read_message(&cut).is_err());
        if length >= HEADER_LEN {
            cut[..4].copy_from_slice(&(length as u32).to_le_bytes());
            // A message that is cut between two sections is valid.
            let _ = read_message(&cut);
        }
    }
}

#[test]
fn header_refuses_lengths_out_of_range() {
    for length in [-1, 0, 15, MAX_MESSAGE_BYTES as i32 + 1] {
        let mut bytes = message(0, &body());
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        assert_eq!(Header::read(&bytes), Some(Err(WireError::Length(length))));
    }
}

#[test]
fn compressed_messages_round_trip_and_false_sizes_are_refused() {
    let plain = message(0, &[body(), sequence("documents", 500)].concat());
    for compressor in Compressor::ALL {
        let packed = compression::pack(&plain, compressor).unwrap();
        assert!(packed.len() < plain.len(), "{compressor:?}");
        let mut scratch = Vec::new();
        assert_eq!(read(&packed, &mut scratch).unwrap().compressor, Some(compressor));
        assert_eq!(scratch[HEADER_LEN..], plain[HEADER_LEN..], "{compressor:?}");
        for claimed in [0, plain.len() as u32, 3] {
            let mut lying = packed.clone();
            lying[HEADER_LEN + 4..HEADER_LEN + 8].copy_from_slice(&claimed.to_le_bytes());
            assert!(matches!(read(&lying, &mut scratch), Err(WireError::Compression(_))), "{compressor:?}");
        }
    }
}
