//! The header of an index: its design document, its progress, and the roots of its trees.

use crate::collate::Order;
use crate::design::Design;
use crate::error::{Error, Result};
use crate::tree::{Layout, Tree};
use diwan_store::keys::{read_number, write_number};

/// The version of the format of headers, nodes and records.
const VERSION: u64 = 1;

/// The version of a header that names the process that updates the index.
const OWNED: u64 = 2;

/// One view of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ViewState {
    pub name: String,
    /// The source or name of the reduce function.
    pub reduce: Option<String>,
    pub layout: Layout,
    pub tree: Tree,
}

/// The progress of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BuildState {
    /// Documents are being mapped in the order of their ids, and their rows stored in sorted runs.
    Building {
        /// The key bytes of the last mapped id.
        after: Option<Vec<u8>>,
        /// How many documents are mapped.
        mapped: u64,
        /// How many runs each view has.
        runs: u64,
    },
    /// The trees contain all rows as of the sequence.
    Ready {
        /// Whether the merged runs may still be stored.
        leftovers: bool,
    },
}

/// The header of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub signature: [u8; 16],
    /// The id of the design document that the index belongs to.
    pub design: String,
    /// The sequence of the collection that the index has reached.
    pub sequence: u64,
    /// The process that builds or updates the index, where several have the store open.
    pub owner: Option<u32>,
    pub state: BuildState,
    pub views: Vec<ViewState>,
}

impl Header {
    /// The header of an index whose build has not begun.
    pub fn new(design: &Design, partitioned: bool, sequence: u64) -> Header {
        let views = design.views().iter().map(|(name, view)| ViewState {
            name: name.clone(),
            reduce: view.reduce.clone(),
            layout: Layout {
                order: if view.raw_collation { Order::Raw } else { Order::Unicode },
                partitioned,
            },
            tree: Tree::default(),
        });
        Header {
            signature: design.signature(),
            design: design.id().to_owned(),
            sequence,
            owner: None,
            state: BuildState::Building { after: None, mapped: 0, runs: 0 },
            views: views.collect(),
        }
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.state, BuildState::Ready { .. })
    }

    pub fn view(&self, name: &str) -> Option<(usize, &ViewState)> {
        self.views.iter().enumerate().find(|(_, view)| view.name == name)
    }

    /// Encodes the header.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        match self.owner {
            None => write_number(&mut out, VERSION),
            Some(owner) => {
                write_number(&mut out, OWNED);
                write_number(&mut out, owner.into());
            }
        }
        out.extend_from_slice(&self.signature);
        write_text(&mut out, &self.design);
        write_number(&mut out, self.sequence);
        match &self.state {
            BuildState::Building { after, mapped, runs } => {
                out.push(0);
                write_bytes(&mut out, after.as_deref().unwrap_or_default());
                write_number(&mut out, *mapped);
                write_number(&mut out, *runs);
            }
            BuildState::Ready { leftovers } => out.extend_from_slice(&[1, u8::from(*leftovers)]),
        }
        for view in &self.views {
            write_text(&mut out, &view.name);
            out.push(u8::from(view.reduce.is_some()));
            write_text(&mut out, view.reduce.as_deref().unwrap_or_default());
            out.push(u8::from(view.layout.order == Order::Raw) | u8::from(view.layout.partitioned) << 1);
            view.tree.encode(&mut out);
        }
        out
    }

    /// Decodes a header.
    pub fn decode(bytes: &[u8]) -> Result<Header> {
        Header::read(bytes).ok_or_else(|| {
            Error::Store(diwan_store::Error::Damaged("the header of an index of views".to_owned()))
        })
    }

    fn read(bytes: &[u8]) -> Option<Header> {
        let (version, rest) = read_number(bytes)?;
        let (owner, rest) = match version {
            VERSION => (None, rest),
            OWNED => {
                let (owner, rest) = read_number(rest)?;
                (Some(u32::try_from(owner).ok()?), rest)
            }
            _ => return None,
        };
        let (signature, rest) = rest.split_first_chunk::<16>()?;
        let (design, rest) = read_text(rest)?;
        let (sequence, rest) = read_number(rest)?;
        let (kind, rest) = rest.split_first()?;
        let (state, mut rest) = if *kind == 0 {
            let (after, rest) = read_bytes(rest)?;
            let (mapped, rest) = read_number(rest)?;
            let (runs, rest) = read_number(rest)?;
            (BuildState::Building { after: (!after.is_empty()).then(|| after.to_vec()), mapped, runs }, rest)
        } else {
            let (leftovers, rest) = rest.split_first()?;
            (BuildState::Ready { leftovers: *leftovers == 1 }, rest)
        };
        let mut views = Vec::new();
        while !rest.is_empty() {
            let (name, after) = read_text(rest)?;
            let (has_reduce, after) = after.split_first()?;
            let (reduce, after) = read_text(after)?;
            let (flags, after) = after.split_first()?;
            let (tree, after) = Tree::decode(after)?;
            views.push(ViewState {
                name,
                reduce: (*has_reduce == 1).then_some(reduce),
                layout: Layout {
                    order: if flags & 1 == 1 { Order::Raw } else { Order::Unicode },
                    partitioned: flags & 2 == 2,
                },
                tree,
            });
            rest = after;
        }
        Some(Header { signature: *signature, design, sequence, owner, state, views })
    }
}

pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn read_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = read_number(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_bytes(out, text.as_bytes());
}

fn read_text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (text, rest) = read_bytes(bytes)?;
    Some((String::from_utf8(text.to_vec()).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_returns_the_encoded_header() {
        let text = r#"{"_id":"_design/a","views":{"v":{"map":"x","reduce":"_sum"},"w":{"map":"y","options":{"collation":"raw"}}}}"#;
        let design = Design::parse(text.as_bytes()).unwrap();
        let mut header = Header::new(&design, true, 7);
        for state in [
            BuildState::Building { after: Some(vec![1, 2]), mapped: 3, runs: 4 },
            BuildState::Ready { leftovers: true },
            BuildState::Ready { leftovers: false },
        ] {
            header.state = state;
            header.views[1].tree = Tree { root: Some(0), next: 5, rows: 6, bytes: 700 };
            let bytes = header.encode();
            assert_eq!(Header::decode(&bytes).unwrap(), header);
            assert!(Header::decode(&bytes[..bytes.len() - 1]).is_err());
        }
    }
}
