//! The parameters of requests for documents.

use super::revs::{Rev, parse_list};
use crate::error::{Error, Result};
use crate::http::Query;
use diwan_store::Revision;

/// What is shown of a document beside its fields.
#[derive(Clone, Debug, Default)]
pub struct Show {
    /// The bytes of attachments, not only their descriptions.
    pub attachments: bool,
    /// The bytes follow in other parts of the answer.
    pub follows: bool,
    /// How attachments are packed.
    pub att_encoding_info: bool,
    /// Only attachments that are newer than these revisions are shown with their bytes.
    pub atts_since: Vec<Revision>,
    /// `_revisions`.
    pub revs: bool,
    /// `_revs_info`.
    pub revs_info: bool,
    /// `_conflicts`.
    pub conflicts: bool,
    /// `_deleted_conflicts`.
    pub deleted_conflicts: bool,
    /// `_local_seq`.
    pub local_seq: bool,
    /// Integers that JavaScript would round are digits like others: the client keeps them.
    pub exact_integers: bool,
}

impl Show {
    /// The same without what belongs to the document as a whole: for one of its revisions.
    pub fn of_revision(&self) -> Show {
        Show {
            revs_info: false,
            conflicts: false,
            deleted_conflicts: false,
            local_seq: false,
            ..self.clone()
        }
    }
}

/// Which revisions `open_revs` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenRevs {
    /// All leaves.
    All,
    /// These.
    List(Vec<Rev>),
}

/// The parameters of a request for a document.
#[derive(Clone, Debug, Default)]
pub struct DocOptions {
    /// The revision asked for.
    pub rev: Option<Rev>,
    /// The revisions asked for.
    pub open_revs: Option<OpenRevs>,
    /// What they became later is answered in their place.
    pub latest: bool,
    /// What is shown.
    pub show: Show,
}

impl DocOptions {
    /// Reads the parameters.
    pub fn parse(query: &Query) -> Result<DocOptions> {
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
                // An empty list asks for the document itself, as if it were not there.
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

    /// Refuses the parameters that belong to one document, in a request for many.
    pub fn parse_for_many(query: &Query) -> Result<DocOptions> {
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
    fn parameters_are_read() {
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
