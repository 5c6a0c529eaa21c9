//! `authenticationRestrictions`: the addresses from which a user may sign in, and to which.

use crate::error::{Error, Result};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, DocBuilder, Value};
use std::net::IpAddr;

/// Addresses of the client and of the server under which a sign-in is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restriction {
    client_source: Option<Vec<Range>>,
    server_address: Option<Vec<Range>>,
}

/// An address, or a range of addresses in CIDR notation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    address: IpAddr,
    bits: u8,
}

impl Range {
    fn parse(text: &str) -> Option<Range> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most)?,
            None => most,
        };
        Some(Range { address, bits })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let (mine, other, width) = match (self.address, address.to_canonical()) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => {
                (u128::from(mine.to_bits()), u128::from(other.to_bits()), 32)
            }
            (IpAddr::V6(mine), IpAddr::V6(other)) => (mine.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        let shift = width - u32::from(self.bits);
        mine.checked_shr(shift).unwrap_or(0) == other.checked_shr(shift).unwrap_or(0)
    }

    fn text(&self) -> String {
        let most = if self.address.is_ipv4() { 32 } else { 128 };
        if self.bits == most { self.address.to_string() } else { format!("{}/{}", self.address, self.bits) }
    }
}

impl Restriction {
    /// Reads the restrictions of a command's argument.
    pub fn parse_all(list: Array<'_>) -> Result<Vec<Restriction>> {
        list.iter()
            .map(|value| {
                let doc = value
                    .as_doc()
                    .ok_or_else(|| Error::bad_value("authenticationRestrictions is a list of documents"))?;
                Restriction::parse(doc)
            })
            .collect()
    }

    /// Reads stored restrictions. One that does not parse allows nothing.
    pub fn read_all(list: Option<Array<'_>>) -> Vec<Restriction> {
        let closed = Restriction { client_source: Some(Vec::new()), server_address: None };
        let read = |value: Value<'_>| value.as_doc().and_then(|doc| Restriction::parse(doc).ok());
        list.into_iter()
            .flat_map(Array::iter)
            .map(|value| read(value).unwrap_or_else(|| closed.clone()))
            .collect()
    }

    fn parse(doc: Doc<'_>) -> Result<Restriction> {
        let mut restriction = Restriction { client_source: None, server_address: None };
        for element in doc.iter() {
            let key = element.key_str();
            let ranges = ranges(key, element.value())?;
            match key {
                "clientSource" => restriction.client_source = Some(ranges),
                "serverAddress" => restriction.server_address = Some(ranges),
                _ => {
                    return Err(Error::failed_to_parse(format!(
                        "Unrecognized authentication restriction field name: '{key}'"
                    )));
                }
            }
        }
        Ok(restriction)
    }

    /// Whether a client at `client` may sign in over a connection to the address `server`.
    pub fn allows(&self, client: IpAddr, server: IpAddr) -> bool {
        let fits = |ranges: &Option<Vec<Range>>, address| {
            ranges.as_ref().is_none_or(|ranges| ranges.iter().any(|range| range.contains(address)))
        };
        fits(&self.client_source, client) && fits(&self.server_address, server)
    }

    /// The restrictions as stored.
    pub fn to_array(list: &[Restriction]) -> ArrayBuilder {
        let mut array = ArrayBuilder::new();
        for restriction in list {
            array.push(restriction.to_doc());
        }
        array
    }

    fn to_doc(&self) -> DocBuf {
        let mut doc = DocBuilder::new();
        for (key, ranges) in [("clientSource", &self.client_source), ("serverAddress", &self.server_address)]
        {
            if let Some(ranges) = ranges {
                doc.begin_array(key);
                for (at, range) in ranges.iter().enumerate() {
                    doc.append_indexed(at, range.text());
                }
                doc.end();
            }
        }
        doc.finish()
    }
}

fn ranges(key: &str, value: Value<'_>) -> Result<Vec<Range>> {
    let list = value.as_array().ok_or_else(|| Error::bad_value(format!("{key} is a list of addresses")))?;
    list.iter()
        .map(|value| {
            let text = value.as_str().unwrap_or_default();
            Range::parse(text)
                .ok_or_else(|| Error::bad_value(format!("{key}: '{text}' is not an address or a range")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    fn allows(ranges: &str, client: &str) -> bool {
        let doc = doc! { "clientSource": [ranges] };
        let restriction = Restriction::parse(doc.as_doc()).unwrap();
        restriction.allows(client.parse().unwrap(), "10.0.0.1".parse().unwrap())
    }

    #[test]
    fn restriction_holds_for_its_range_of_addresses() {
        assert!(allows("10.1.0.0/16", "10.1.2.3") && !allows("10.1.0.0/16", "10.2.0.1"));
        assert!(allows("127.0.0.1", "::ffff:127.0.0.1") && !allows("127.0.0.1", "127.0.0.2"));
        assert!(allows("0.0.0.0/0", "8.8.8.8") && !allows("0.0.0.0/0", "::1"));
        assert!(allows("fd00::/8", "fd12::1") && !allows("fd00::/8", "fe80::1"));
    }

    #[test]
    fn stored_restriction_that_does_not_parse_allows_nothing() {
        let stored = doc! { "list": [{ "clientSource": ["10.0.0.0/99"] }] };
        let list = stored.as_doc().get_array("list");
        assert!(Restriction::parse_all(list.unwrap()).is_err());
        let read = Restriction::read_all(list);
        assert!(!read[0].allows("10.0.0.1".parse().unwrap(), "10.0.0.1".parse().unwrap()));
    }
}
