//! JSON objects whose members keep their order and text, so that replicated documents are not reformatted.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The members of an object, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    list: Vec<(String, Box<RawValue>)>,
}

impl Members {
    /// Parses an object.
    pub(super) fn parse(text: &[u8]) -> serde_json::Result<Members> {
        serde_json::from_slice(text)
    }

    /// Returns the text of a member.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.list.iter().find(|member| member.0 == name).map(|member| member.1.get())
    }

    /// Returns a string member.
    pub(super) fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// Returns a member of any type.
    pub(super) fn value(&self, name: &str) -> Option<serde_json::Value> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// Replaces a member or appends it.
    pub(super) fn set(&mut self, name: &str, value: &serde_json::Value) {
        self.set_text(name, value.to_string().as_bytes());
    }

    /// Replaces a member or appends it, given as text. Text that is not JSON is ignored.
    pub(super) fn set_text(&mut self, name: &str, text: &[u8]) {
        if let Ok(value) = serde_json::from_slice::<Box<RawValue>>(text) {
            match self.list.iter_mut().find(|member| member.0 == name) {
                Some(member) => member.1 = value,
                None => self.list.push((name.to_owned(), value)),
            }
        }
    }

    /// Iterates over the names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|member| member.0.as_str())
    }

    /// Removes a member.
    pub(super) fn remove(&mut self, name: &str) {
        self.list.retain(|member| member.0 != name);
    }

    /// Formats the object.
    pub(super) fn to_text(&self) -> Vec<u8> {
        let mut out = vec![b'{'];
        for (name, value) in &self.list {
            if out.len() > 1 {
                out.push(b',');
            }
            diwan_value::json::write_string(&mut out, name);
            out.push(b':');
            out.extend_from_slice(value.get().as_bytes());
        }
        out.push(b'}');
        out
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut list = Vec::new();
                while let Some(member) = map.next_entry()? {
                    list.push(member);
                }
                Ok(Members { list })
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_text() {
        let mut members =
            Members::parse(br#"{"z":1.0,"a":{"y": 12345678901234567890},"\u0062":"x"}"#).unwrap();
        assert_eq!(members.string("b").as_deref(), Some("x"));
        members.set("n", &serde_json::json!(null));
        members.set("z", &serde_json::json!(2));
        members.remove("b");
        assert_eq!(members.to_text(), br#"{"z":2,"a":{"y": 12345678901234567890},"n":null}"#);
        assert!(Members::parse(b"[]").is_err());
    }
}
