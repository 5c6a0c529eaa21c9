//! The `fields` of a query: the members of documents in the result.

use super::field::{self, Reached, reach};
use super::{Error, Result};
use diwan_value::{Doc, DocBuf, DocBuilder, Path, RawValue, Value};

/// A list of fields as a tree of names, in the order of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    members: Vec<Member>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    name: Path,
    /// Empty if the whole value is returned.
    inner: Fields,
}

impl Fields {
    /// Parses a list of fields; `None` if whole documents are returned.
    pub fn parse(fields: Value<'_>) -> Result<Option<Fields>> {
        let Value::Array(array) = fields else {
            return Err(Error::about("invalid_fields", "Fields must be an array of strings, not: ", fields));
        };
        let mut all = Fields::default();
        for name in array.iter() {
            let Value::String(name) = name else {
                return Err(Error::about("invalid_field", "Invalid JSON for field spec: ", name));
            };
            let mut names = Vec::new();
            field::split(name, &mut names)?;
            let path = field::stored_path(&names);
            // Over HTTP an id is a string and has no fields.
            if path.depth() == 1 || path.name(0) != "_id" {
                all.add(path.names());
            }
        }
        Ok((!array.is_empty()).then_some(all))
    }

    fn add<'n>(&mut self, mut names: impl Iterator<Item = &'n str>) {
        let Some(name) = names.next() else {
            // The whole value was listed, which includes fields listed earlier.
            self.members.clear();
            return;
        };
        match self.members.iter().position(|member| member.name.name(0) == name) {
            Some(at) if self.members[at].inner.members.is_empty() => {}
            Some(at) => self.members[at].inner.add(names),
            None => {
                let mut inner = Fields::default();
                inner.add(names);
                self.members.push(Member { name: Path::from_names([name.to_owned()]), inner });
            }
        }
    }

    /// Whether the list has metadata members. `project` expects `_rev` under the name `$_rev`, and so on.
    pub fn names_metadata(&self) -> bool {
        self.members.iter().any(|member| field::is_metadata(&member.name))
    }

    /// Copies only these fields of a document. A number in a path selects an array element, which becomes a member with
    /// that number as its name.
    pub fn project(&self, doc: Doc<'_>) -> DocBuf {
        let mut out = DocBuilder::new();
        for member in &self.members {
            if let Some(raw) = doc.get_raw(member.name.name(0)) {
                member.append(raw, &mut out);
            }
        }
        out.finish()
    }
}

impl Member {
    fn append(&self, raw: RawValue<'_>, out: &mut DocBuilder) {
        if self.inner.members.is_empty() {
            out.append_raw(self.name.name(0).as_bytes(), raw);
            return;
        }
        let mut nested = DocBuilder::new();
        for member in &self.inner.members {
            if let Reached::Value(raw) = reach(&member.name, Some(raw), 0) {
                member.append(raw, &mut nested);
            }
        }
        if !nested.is_empty() {
            out.append(self.name.name(0), nested.finish());
        }
    }
}
