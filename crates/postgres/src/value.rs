//! Values as they are stored: a byte that tells the form, then the value as it is, or compressed.
//!
//! Values from [`COMPRESSED_FROM`] bytes on are compressed where that saves an eighth. The server itself does not compress
//! them (`STORAGE EXTERNAL`).

use bytes::{BufMut, BytesMut};
use diwan_kv::{Bytes, Error, Result};
use std::error::Error as StdError;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

const PLAIN: u8 = 0;
const LZ4: u8 = 1;

/// Shorter values are stored as they are.
const COMPRESSED_FROM: usize = 1024;

/// A value in its stored form.
#[derive(Clone, Debug)]
pub(crate) enum Stored {
    /// As it is.
    Plain(Bytes),
    /// Compressed, with its form and its length before it.
    Packed(Vec<u8>),
}

impl Stored {
    /// Puts a value into the form that it is stored in.
    pub fn of(value: &Bytes) -> Stored {
        if value.len() >= COMPRESSED_FROM {
            let most = lz4_flex::block::get_maximum_output_size(value.len());
            let mut packed = vec![0; 5 + most];
            packed[0] = LZ4;
            // The contract's values are far shorter than 4 GB.
            packed[1..5].copy_from_slice(&(value.len() as u32).to_le_bytes());
            if let Ok(len) = lz4_flex::block::compress_into(value, &mut packed[5..])
                && len + value.len() / 8 < value.len()
            {
                packed.truncate(5 + len);
                packed.shrink_to_fit();
                return Stored::Packed(packed);
            }
        }
        Stored::Plain(value.clone())
    }

    /// How many bytes the column takes.
    pub fn len(&self) -> usize {
        match self {
            Stored::Plain(value) => 1 + value.len(),
            Stored::Packed(packed) => packed.len(),
        }
    }
}

impl ToSql for Stored {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Stored::Plain(value) => {
                out.put_u8(PLAIN);
                out.put_slice(value);
            }
            Stored::Packed(packed) => out.put_slice(packed),
        }
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::BYTEA
    }

    to_sql_checked!();
}

/// The value in a column. `room` takes it where it must be decompressed.
pub(crate) fn value_of<'a>(column: &'a [u8], room: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    let damaged = |what: &str| Error::Damaged(format!("a value in PostgreSQL {what}").into());
    match column.split_first() {
        Some((&PLAIN, value)) => Ok(value),
        Some((&LZ4, packed)) => {
            let (len, packed) = packed.split_first_chunk::<4>().ok_or_else(|| damaged("has no length"))?;
            let len = u32::from_le_bytes(*len) as usize;
            // LZ4 makes a value at most 255 times shorter.
            if len > packed.len().saturating_mul(255) {
                return Err(damaged("has a wrong length"));
            }
            room.resize(len, 0);
            match lz4_flex::block::decompress_into(packed, room) {
                Ok(found) if found == len => Ok(room),
                _ => Err(damaged("does not decompress")),
            }
        }
        Some(_) => Err(damaged("has an unknown form")),
        None => Err(damaged("has no form")),
    }
}

/// The value in a column, as bytes of its own.
pub(crate) fn owned_value_of(column: &[u8]) -> Result<Bytes> {
    let mut room = Vec::new();
    value_of(column, &mut room).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(stored: &Stored) -> Vec<u8> {
        let mut out = BytesMut::new();
        stored.to_sql(&Type::BYTEA, &mut out).unwrap();
        assert_eq!(out.len(), stored.len());
        out.to_vec()
    }

    #[test]
    fn values_come_back_and_long_ones_are_compressed() {
        let noise: Vec<u8> = (0..5000u32).map(|n| blake3::hash(&n.to_le_bytes()).as_bytes()[0]).collect();
        for (value, packed) in [
            (vec![], false),
            (vec![7; 1023], false),
            (vec![7; 1024], true),
            (noise, false),
            (vec![1; 20 << 20], true),
        ] {
            let stored = Stored::of(&value.as_slice().into());
            assert_eq!(matches!(stored, Stored::Packed(_)), packed, "{}", value.len());
            assert_eq!(*owned_value_of(&column(&stored)).unwrap(), *value);
        }
    }

    #[test]
    fn damage_is_an_error() {
        let packed = column(&Stored::of(&vec![7; 4000].into()));
        for bad in
            [&b""[..], &[9, 1], &[LZ4, 1], &[LZ4, 0xff, 0xff, 0xff, 0xff, 0], &packed[..packed.len() - 3]]
        {
            assert!(matches!(owned_value_of(bad), Err(Error::Damaged(_))), "{bad:?}");
        }
    }
}
