//! The parameters of requests for documents.

use super::revs::{Rev, parse_list};
use crate::error::{Error, Result};
use crate::http::Query;
use diwan_store::Revision;

/// What is shown of a document besides its fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Show {
    /// The attachments' bytes as base64, and not only stubs.
    pub(crate) attachments: bool,
    /// The attachments' bytes follow in other parts of the answer.
    pub(crate) follows: bool,
    /// The encoding of compressed attachments.
    pub(crate) att_encoding_info: bool,
    /// With bytes, show only those of attachments that are newer than these revisions.
    pub(crate) atts_since: Vec<Revision>,
    /// `_revisions`.
    pub(crate) revs: bool,
    /// `_revs_info`.
    pub(crate) revs_info: bool,
    /// `_conflicts`.
    pub(crate) conflicts: bool,
    /// `_deleted_conflicts`.
    pub(crate) deleted_conflicts: bool,
    /// `_local_seq`.
    pub(crate) local_seq: bool,
    /// Write integers beyond 2^53 as plain digits; the client keeps them exact.
    pub(crate) exact_integers: bool,
}

impl Show {
    /// Whether only the fields and descriptions of attachments are shown.
    pub(crate) fn is_plain(&self) -> bool {
        let asked = [
            self.attachments,
            self.follows,
            self.att_encoding_info,
            self.revs,
            self.revs_info,
            self.conflicts,
            self.deleted_conflicts,
            self.local_seq,
            self.exact_integers,
        ];
        asked == [false; 9]
    }

    /// The same for a single revision: without the members that describe the whole document.
    pub(crate) fn of_revision(&self) -> Show {
        Show {
            revs_info: false,
            conflicts: false,
            deleted_conflicts: false,
            local_seq: false,
            ..self.clone()
        }
    }
}

/// The revisions that `open_revs` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpenRevs {
    /// All leaves.
    All,
    /// The listed revisions.
    List(Vec<Rev>),
}

/// The parameters of a request for a document.
#[derive(Clone, Debug, Default)]
pub(crate) struct DocOptions {
    /// The `rev` parameter.
    pub(crate) rev: Option<Rev>,
    /// The `open_revs` parameter.
    pub(crate) open_revs: Option<OpenRevs>,
    /// Answer with the leaves that descend from the named revisions.
    pub(crate) latest: bool,
    /// What is shown.
    pub(crate) show: Show,
}

impl DocOptions {
    /// Parses the parameters.
    pub(crate) fn parse(query: &Query) -> Result<DocOptions> {
        let meta = query.is_set("meta");
        let atts_since = match query.json("atts_since")? {
            Some(list) => Some(parse_list(&list)?),
            None => None,
        };
        let show = Show {
            attachments: query.is_set("attachments") || atts_since.is_some(),
            follows: false,
            att_encoding_info: query.is_set("att_encoding_info"),
            atts_since: atts_since.unwrap_or_default().iter().filter_map(Rev::own).collect(),
            revs: query.is_set("revs"),
            revs_info: query.is_set("revs_info") || meta,
            conflicts: query.is_set("conflicts") || meta,
            deleted_conflicts: query.is_set("deleted_conflicts") || meta,
            local_seq: query.is_set("local_seq"),
            exact_integers: false,
        };
        let open_revs = match query.get("open_revs") {
            None => None,
            Some("all") => Some(OpenRevs::All),
            Some(_) => {
                let list = query.json("open_revs")?.unwrap_or_default();
                // Like CouchDB, treat an empty list as an absent parameter.
                Some(OpenRevs::List(parse_list(&list)?)).filter(|revs| *revs != OpenRevs::List(Vec::new()))
            }
        };
        Ok(DocOptions {
            rev: query.get("rev").map(Rev::parse).transpose()?,
            open_revs,
            latest: query.is_set("latest"),
            show,
        })
    }

    /// Parses the parameters of a request for many documents and refuses those that only apply to one.
    pub(crate) fn parse_for_many(query: &Query) -> Result<DocOptions> {
        for name in ["open_revs", "new_edits", "w", "rev", "atts_since"] {
            if query.get(name).is_some() {
                return Err(Error::bad_request(format!("\"{name}\" query parameter is not acceptable")));
            }
        }
        DocOptions::parse(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doc_options_are_parsed() {
        let hash = "0".repeat(32);
        let text =
            format!("meta=true&revs=true&open_revs=[%221-{hash}%22,%222-x%22]&atts_since=[%221-{hash}%22]");
        let options = DocOptions::parse(&Query::parse(&text)).unwrap();
        let show = &options.show;
        assert!(show.conflicts && show.revs && show.attachments && show.deleted_conflicts && !show.local_seq);
        assert_eq!(show.atts_since.len(), 1);
        let of_revision = show.of_revision();
        assert!(of_revision.revs && !of_revision.conflicts && !of_revision.revs_info);
        assert!(matches!(options.open_revs, Some(OpenRevs::List(revs)) if revs.len() == 2));
        let plain = DocOptions::parse(&Query::parse("open_revs=[]&other=1&meta=yes")).unwrap();
        assert!(plain.open_revs.is_none() && !plain.show.revs_info);
        for bad in ["rev=x", "open_revs={}", "open_revs=[1]", "atts_since=1", "open_revs=x"] {
            assert_eq!(DocOptions::parse(&Query::parse(bad)).unwrap_err().status, 400, "{bad}");
        }
        let error = DocOptions::parse_for_many(&Query::parse("rev=1-x")).unwrap_err();
        assert_eq!(error.reason, "\"rev\" query parameter is not acceptable");
    }
}
