//! The answer to a query: ranges of a tree, as rows or reduced. It is read in parts. Between two parts only a
//! [`Cursor`] remains, which outlives the snapshot that the tree was read through.

use super::parameters::GroupLevel;
use super::{Documents, Row, ViewHead, ViewQuery, ViewSink};
use crate::collate;
use crate::error::{Error, Result};
use crate::json::{self, Kind};
use crate::reduce::Reduce;
use crate::tree::{ABOVE, GroupFold, Grouping, Layout, Nodes, Range, Tree, write_id, write_partition};
use diwan_store::ReadView;

/// The ranges of places that a query selects, in the order of the answer.
pub(super) fn ranges(query: &ViewQuery, layout: Layout) -> Result<Vec<Range>> {
    (0..).map_while(|at| range(query, layout, at).transpose()).collect()
}

/// One of the ranges: that of the key number `at`, or the only one.
fn range(query: &ViewQuery, layout: Layout, at: usize) -> Result<Option<Range>> {
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
    // The place before or after all rows of a key, or with `id`, of that document's rows with the key.
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
        // An excluded end is on the near side of its rows.
        let end = end.map(|key| bound(key, end_id, query.descending != query.inclusive_end));
        if query.descending { (end, start) } else { (start, end) }
    };
    if let Some(keys) = &query.keys {
        let range = |key: &String| {
            let (from, to) = ends(Some(key), Some(key));
            Range { from: from.unwrap_or_default(), to }
        };
        return Ok(keys.get(at).map(range));
    }
    // Without `keys` there is one range.
    if at > 0 {
        return Ok(None);
    }
    let (from, to) = ends(query.start_key.as_deref(), query.end_key.as_deref());
    // CouchDB reports an empty range as an error, except for a single key.
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
    Ok(Some(Range { from: from.unwrap_or(base), to: to.or(whole_end) }))
}

/// The read position of an answer.
pub(super) struct Cursor {
    /// The rest of the current range, and the number of the next one.
    range: Option<Range>,
    next: usize,
    /// Whether several keys are read from the last one.
    backwards: bool,
    /// How many rows are still to be skipped, and how many may still be returned.
    skip: u64,
    left: u64,
}

impl Cursor {
    /// Takes the next range to read, if there may be more rows.
    fn take(&mut self, query: &ViewQuery, layout: Layout) -> Result<Option<Range>> {
        if self.left == 0 {
            return Ok(None);
        }
        if let Some(rest) = self.range.take() {
            return Ok(Some(rest));
        }
        self.following(query, layout)
    }

    /// Takes the next whole range.
    fn following(&mut self, query: &ViewQuery, layout: Layout) -> Result<Option<Range>> {
        let at = self.next;
        self.next += 1;
        let count = query.keys.as_ref().filter(|_| self.backwards).map(Vec::len);
        match count {
            None => range(query, layout, at),
            Some(count) if at < count => range(query, layout, count - 1 - at),
            Some(_) => Ok(None),
        }
    }
}

/// The source of an answer's rows.
pub(super) struct RowSource<'a> {
    pub nodes: &'a dyn Nodes,
    pub tree: Tree,
    pub layout: Layout,
    /// Whether the view has a reduce function.
    pub has_reduce: bool,
    /// The reduce function; absent if rows are returned.
    pub reduce: Option<&'a Reduce>,
    /// The collection, to read documents from.
    pub view: &'a ReadView,
    /// The sequence that the rows reflect.
    pub sequence: u64,
}

impl RowSource<'_> {
    /// Answers a query: the head if there is no cursor yet, then rows from the cursor on until the sink stops. Returns
    /// whether there may be more.
    pub fn answer(
        &self,
        cursor: &mut Option<Cursor>,
        query: &ViewQuery,
        documents: &dyn Documents,
        sink: &mut dyn ViewSink,
    ) -> Result<bool> {
        let reduce = self.reduce.filter(|_| query.reduce != Some(false));
        let cursor = match cursor {
            Some(cursor) => cursor,
            none => none.insert(self.begin(query, reduce.is_some(), sink)?),
        };
        match reduce {
            Some(reduce) => self.groups(reduce, cursor, query, sink),
            None => self.rows(cursor, query, documents, sink),
        }
    }

    fn begin(&self, query: &ViewQuery, is_reduced: bool, sink: &mut dyn ViewSink) -> Result<Cursor> {
        query.check(self.has_reduce)?;
        // In descending order, the last of several keys comes first. Groups keep the order of the keys.
        let backwards = query.descending && !is_reduced;
        let skip = query.skip;
        let left = query.limit.unwrap_or(u64::MAX);
        let mut cursor = Cursor { range: None, next: 0, backwards, skip, left };
        cursor.range = cursor.following(query, self.layout)?;
        let mut head =
            ViewHead { update_seq: query.update_seq.then_some(self.sequence), ..ViewHead::default() };
        if !is_reduced {
            head.total_rows = Some(self.tree.rows);
            head.offset = Some(self.offset(cursor.range.as_ref(), query)?);
        }
        sink.head(&head)?;
        Ok(cursor)
    }

    /// How many rows precede the first row of the answer.
    fn offset(&self, first: Option<&Range>, query: &ViewQuery) -> Result<u64> {
        let Some(first) = first else { return Ok(0) };
        let before = match (query.descending, &first.to) {
            (false, _) => self.tree.rows_before(self.nodes, &first.from)?,
            (true, Some(to)) => self.tree.rows - self.tree.rows_before(self.nodes, to)?,
            (true, None) => 0,
        };
        Ok(before.saturating_add(query.skip).min(self.tree.rows))
    }

    fn rows(
        &self,
        cursor: &mut Cursor,
        query: &ViewQuery,
        documents: &dyn Documents,
        sink: &mut dyn ViewSink,
    ) -> Result<bool> {
        let mut doc = Vec::new();
        while let Some(mut range) = cursor.take(query, self.layout)? {
            // Skipping whole ranges needs only the row counts of inner nodes.
            let skipped = std::mem::take(&mut cursor.skip);
            if skipped > 0 {
                let rows = self.tree.rows_in(self.nodes, &range)?;
                if rows <= skipped {
                    cursor.skip = skipped - rows;
                    continue;
                }
            }
            let left = &mut cursor.left;
            let mut last = None;
            self.tree.scan(self.nodes, &range, query.descending, skipped, &mut |entry| {
                let id = self.layout.id(entry.place);
                if query.include_docs {
                    doc.clear();
                    self.document(&id, entry.value, query, documents, &mut doc)?;
                }
                let doc = query.include_docs.then(|| std::str::from_utf8(&doc).unwrap_or("null"));
                *left -= 1;
                let wants_more = sink.row(&Row { id: Some(&id), key: entry.key, value: entry.value, doc })?;
                if !wants_more {
                    last = Some(entry.place.to_vec());
                }
                Ok(wants_more && *left > 0)
            })?;
            // The sink stopped: the next part continues after the last row sent.
            if let Some(mut last) = last {
                if query.descending {
                    range.to = Some(last);
                } else {
                    // The next place after the last one.
                    last.push(0);
                    range.from = last;
                }
                cursor.range = Some(range);
                return Ok(cursor.left > 0);
            }
        }
        Ok(false)
    }

    /// Writes the document of a row: the emitting one, or the one that the value names.
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
        cursor: &mut Cursor,
        query: &ViewQuery,
        sink: &mut dyn ViewSink,
    ) -> Result<bool> {
        let grouping = match query.grouping()? {
            GroupLevel::None => Grouping::All,
            GroupLevel::Level(level) => Grouping::Level(level),
            GroupLevel::Exact => Grouping::Level(usize::MAX),
        };
        let mut fold = GroupFold::new(self.nodes, self.layout, reduce, grouping, query.descending);
        while let Some(mut range) = cursor.take(query, self.layout)? {
            let (skip, left) = (&mut cursor.skip, &mut cursor.left);
            let mut last = None;
            fold.fold_range(&self.tree, &range, &mut |group, key, reduction| {
                if *skip > 0 {
                    *skip -= 1;
                    return Ok(true);
                }
                let value = reduce.finish(reduction)?;
                *left -= 1;
                let wants_more = sink.row(&Row { id: None, key, value: &value, doc: None })?;
                if !wants_more {
                    last = Some(group.to_vec());
                }
                Ok(wants_more && *left > 0)
            })?;
            // The sink stopped: the next part continues after the last group sent.
            if let Some(mut group) = last {
                if query.descending {
                    range.to = Some(group);
                } else {
                    group.push(ABOVE);
                    range.from = group;
                }
                cursor.range = Some(range).filter(|_| grouping != Grouping::All);
                return Ok(cursor.left > 0);
            }
        }
        Ok(false)
    }
}
