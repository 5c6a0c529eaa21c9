//! The messages of a SCRAM client.

use super::{MAX_MESSAGE_LEN, SaslError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::ops::RangeInclusive;

/// The length of a client's nonce, in bytes. RFC 5802 leaves it open; drivers send 24 to 44.
const NONCE_LENS: RangeInclusive<usize> = 8..=256;

/// The longest user name, in bytes, without escapes.
const MAX_USER_LEN: usize = 1024;

/// The first message.
pub(super) struct ClientFirst {
    /// What precedes the part that the proof covers, with its last comma.
    pub gs2_header: String,
    /// The part that the proof covers.
    pub bare: String,
    /// The user name without escapes.
    pub user: String,
    /// The client's nonce.
    pub nonce: String,
}

impl ClientFirst {
    pub(super) fn parse(message: &[u8]) -> Result<ClientFirst, SaslError> {
        let text = text(message)?;
        let (binding, rest) = text.split_once(',').ok_or(malformed("it ends in the GS2 header"))?;
        match binding {
            "n" | "y" => {}
            _ if binding.starts_with("p=") => return Err(malformed("channel binding is not supported")),
            _ => return Err(malformed("the GS2 header begins with neither n, y nor p")),
        }
        let (authzid, bare) = rest.split_once(',').ok_or(malformed("it ends in the GS2 header"))?;
        let mut attributes = bare.split(',');
        let mut next = || attributes.next().unwrap_or_default();
        let name = next();
        if name.starts_with("m=") {
            return Err(malformed("mandatory extensions are not supported"));
        }
        let user = user_name(name.strip_prefix("n=").ok_or(malformed("the user name is missing"))?)?;
        if !authzid.is_empty() {
            let authzid =
                authzid.strip_prefix("a=").ok_or(malformed("the GS2 header has an unknown part"))?;
            if user_name(authzid)? != user {
                return Err(malformed("to act as another user is not supported"));
            }
        }
        let nonce = next().strip_prefix("r=").ok_or(malformed("the nonce is missing"))?;
        if !NONCE_LENS.contains(&nonce.len()) {
            return Err(malformed("the nonce is too short or too long"));
        }
        if !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(malformed("the nonce has characters that are not printable"));
        }
        attributes.try_for_each(extension)?;
        Ok(ClientFirst {
            gs2_header: text[..text.len() - bare.len()].to_owned(),
            bare: bare.to_owned(),
            user,
            nonce: nonce.to_owned(),
        })
    }
}

/// The final message.
pub(super) struct ClientFinal<'a> {
    /// The channel binding, in Base64.
    pub binding: &'a str,
    /// The nonces of both sides.
    pub nonce: &'a str,
    /// The proof.
    pub proof: Vec<u8>,
    /// The part that the proof covers.
    pub without_proof: &'a str,
}

impl ClientFinal<'_> {
    pub(super) fn parse(message: &[u8]) -> Result<ClientFinal<'_>, SaslError> {
        let text = text(message)?;
        let (without_proof, last) = text.rsplit_once(',').ok_or(malformed("the proof is missing"))?;
        let proof = last.strip_prefix("p=").ok_or(malformed("the proof is missing"))?;
        let proof = BASE64.decode(proof).map_err(|_| malformed("the proof is not Base64"))?;
        let mut attributes = without_proof.split(',');
        let mut next = || attributes.next().unwrap_or_default();
        let binding = next().strip_prefix("c=").ok_or(malformed("the channel binding is missing"))?;
        let nonce = next().strip_prefix("r=").ok_or(malformed("the nonce is missing"))?;
        attributes.try_for_each(extension)?;
        Ok(ClientFinal { binding, nonce, proof, without_proof })
    }
}

fn malformed(detail: &'static str) -> SaslError {
    SaslError::Malformed(detail)
}

fn text(message: &[u8]) -> Result<&str, SaslError> {
    if message.len() > MAX_MESSAGE_LEN {
        return Err(malformed("it is too long"));
    }
    let text = std::str::from_utf8(message).map_err(|_| malformed("it is not UTF-8"))?;
    if text.contains('\0') { Err(malformed("it has a NUL character")) } else { Ok(text) }
}

/// Replaces `=2C` by a comma and `=3D` by an equals sign.
fn user_name(escaped: &str) -> Result<String, SaslError> {
    let mut parts = escaped.split('=');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (character, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(malformed("the user name has an unknown escape")),
        };
        name.push(character);
        name.push_str(rest);
    }
    match name.len() {
        0 => Err(malformed("the user name is empty")),
        1..=MAX_USER_LEN => Ok(name),
        _ => Err(malformed("the user name is too long")),
    }
}

/// Checks the form of an extension, which has no meaning here: a letter, an equals sign and a value.
fn extension(attribute: &str) -> Result<(), SaslError> {
    match attribute.as_bytes() {
        [b'm', b'=', ..] => Err(malformed("mandatory extensions are not supported")),
        [letter, b'=', _, ..] if letter.is_ascii_alphabetic() => Ok(()),
        _ => Err(malformed("an extension has no name or no value")),
    }
}
