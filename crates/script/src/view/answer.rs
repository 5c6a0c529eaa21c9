//! The answer to a query: ranges of a tree, as rows or reduced.

use super::parameters::GroupLevel;
use super::{Documents, Row, ViewHead, ViewQuery, ViewSink};
use crate::collate;
use crate::error::{Error, Result};
use crate::json::{self, Kind};
use crate::reduce::Reduce;
use crate::tree::{ABOVE, GroupFold, Grouping, Layout, Nodes, Range, Tree, write_id, write_partition};
use diwan_store::ReadView;

/// The ranges of places that a query asks for, in the order of the answer.
pub(super) fn ranges(query: &ViewQuery, layout: Layout) -> Result<Vec<Range>> {
    let mut base = Vec::new();
    match (&query.partition, layout.partitioned) {
        (Some(partition), true) => write_partition(&mut base, partition),
        (None, true) => {
            return Err(Error::Query(
                "`partition` parameter is mandatory for queries to this view.".to_owned(),
            ));
        }
        (Some(_), false) => {
            return Err(Error::Query("`partition` parameter is not supported in this design doc".to_owned()));
        }
        (None, false) => {}
    }
    let place = |key: &str| {
        let mut out = base.clone();
        collate::write_key(&mut out, key, layout.order);
        out
    };
    // The place before, or behind, all rows of a key that are from a document up to an id.
    let bound = |key: &str, id: Option<&str>, behind: bool| {
        let mut out = place(key);
        if let Some(id) = id {
            write_id(&mut out, id);
        }
        if behind {
            out.push(ABOVE);
        }
        out
    };
    let start_id = query.start_key_docid.as_deref();
    let end_id = query.end_key_docid.as_deref();
    let ends = |start: Option<&str>, end: Option<&str>| {
        let start = start.map(|key| bound(key, start_id, query.descending));
        // An end that is not included lies on the near side of its rows.
        let end = end.map(|key| bound(key, end_id, query.descending != query.inclusive_end));
        if query.descending { (end, start) } else { (start, end) }
    };
    if let Some(keys) = &query.keys {
        let range = |key: &String| {
            let (from, to) = ends(Some(key), Some(key));
            Range { from: from.unwrap_or_default(), to }
        };
        return Ok(keys.iter().map(range).collect());
    }
    let (from, to) = ends(query.start_key.as_deref(), query.end_key.as_deref());
    let is_one_key = query.start_key == query.end_key;
    if let (Some(from), Some(to)) = (&from, &to)
        && from > to
        && !is_one_key
    {
        return Err(Error::Query(format!(
            "No rows can match your key range, reverse your start_key and end_key or set descending={}",
            !query.descending
        )));
    }
    let whole_end = (!base.is_empty()).then(|| [base.as_slice(), &[ABOVE]].concat());
    Ok(vec![Range { from: from.unwrap_or(base), to: to.or(whole_end) }])
}

/// Where the rows of an answer are.
pub(super) struct Source<'a> {
    pub nodes: &'a dyn Nodes,
    pub tree: Tree,
    pub layout: Layout,
    /// Whether the view has a reduce function.
    pub has_reduce: bool,
    /// That function; not needed where rows are asked for.
    pub reduce: Option<&'a Reduce>,
    /// The collection, for documents.
    pub view: &'a ReadView,
    /// As of which sequence the rows are.
    pub sequence: u64,
}

impl Source<'_> {
    /// Answers a query.
    pub fn answer(
        &self,
        query: &ViewQuery,
        documents: &dyn Documents,
        sink: &mut dyn ViewSink,
    ) -> Result<()> {
        let reduce = self.reduce.filter(|_| query.reduce != Some(false));
        query.check(self.has_reduce)?;
        let mut ranges = ranges(query, self.layout)?;
        let mut head =
            ViewHead { update_seq: query.update_seq.then_some(self.sequence), ..ViewHead::default() };
        match reduce {
            Some(reduce) => {
                sink.head(&head)?;
                self.groups(reduce, &ranges, query, sink)
            }
            None => {
                // Backwards, the last of several keys comes first. Groups come in the order of the keys.
                if query.descending && query.keys.is_some() {
                    ranges.reverse();
                }
                head.total_rows = Some(self.tree.rows);
                head.offset = Some(self.offset(&ranges, query)?);
                sink.head(&head)?;
                self.rows(&ranges, query, documents, sink)
            }
        }
    }

    /// How many rows lie before the first of the answer.
    fn offset(&self, ranges: &[Range], query: &ViewQuery) -> Result<u64> {
        let Some(first) = ranges.first() else { return Ok(0) };
        let before = match (query.descending, &first.to) {
            (false, _) => self.tree.rows_before(self.nodes, &first.from)?,
            (true, Some(to)) => self.tree.rows - self.tree.rows_before(self.nodes, to)?,
            (true, None) => 0,
        };
        Ok(before.saturating_add(query.skip).min(self.tree.rows))
    }

    fn rows(
        &self,
        ranges: &[Range],
        query: &ViewQuery,
        documents: &dyn Documents,
        sink: &mut dyn ViewSink,
    ) -> Result<()> {
        let mut left = query.limit.unwrap_or(u64::MAX);
        let mut skip = query.skip;
        let mut goes_on = left > 0;
        let mut doc = Vec::new();
        for range in ranges {
            if !goes_on {
                break;
            }
            let skipped = skip;
            if skip > 0 {
                let rows = self.tree.rows_in(self.nodes, range)?;
                skip = skip.saturating_sub(rows);
                if rows <= skipped {
                    continue;
                }
            }
            self.tree.scan(self.nodes, range, query.descending, skipped, &mut |entry| {
                let id = self.layout.id(entry.place);
                if query.include_docs {
                    doc.clear();
                    self.document(&id, entry.value, query, documents, &mut doc)?;
                }
                let doc = query.include_docs.then(|| std::str::from_utf8(&doc).unwrap_or("null"));
                left -= 1;
                goes_on =
                    sink.row(&Row { id: Some(&id), key: entry.key, value: entry.value, doc })? && left > 0;
                Ok(goes_on)
            })?;
        }
        Ok(())
    }

    /// Writes the document of a row: its own, or the one that its value names.
    fn document(
        &self,
        id: &str,
        value: &str,
        query: &ViewQuery,
        documents: &dyn Documents,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (mut linked, mut revision) = (None, None);
        if json::kind(value) == Some(Kind::Object) {
            let text = |name| json::member(value, name).filter(|text| json::kind(text) == Some(Kind::String));
            linked = text("_id").map(json::unquote);
            revision = text("_rev").map(json::unquote);
        }
        let id = linked.as_deref().unwrap_or(id);
        if !documents.write(self.view, id, revision.as_deref(), query, out)? {
            out.clear();
            out.extend_from_slice(b"null");
        }
        Ok(())
    }

    fn groups(
        &self,
        reduce: &Reduce,
        ranges: &[Range],
        query: &ViewQuery,
        sink: &mut dyn ViewSink,
    ) -> Result<()> {
        let grouping = match query.grouping()? {
            GroupLevel::None => Grouping::All,
            GroupLevel::Level(level) => Grouping::Level(level),
            GroupLevel::Exact => Grouping::Level(usize::MAX),
        };
        let mut skip = query.skip;
        let mut left = query.limit.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(());
        }
        let mut fold = GroupFold::new(self.nodes, self.layout, reduce, grouping, query.descending);
        for range in ranges {
            let goes_on = fold.run(&self.tree, range, &mut |key, reduction| {
                if skip > 0 {
                    skip -= 1;
                    return Ok(true);
                }
                let value = reduce.finish(reduction)?;
                left -= 1;
                Ok(sink.row(&Row { id: None, key, value: &value, doc: None })? && left > 0)
            })?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }
}
