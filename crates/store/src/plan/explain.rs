//! Plans as `explain` shows them, in MongoDB's form.

use super::interval::{Cut, Interval};
use super::{Access, IndexScan, Plan};
use crate::exec::ScanStats;
use diwan_kv::Direction;
use diwan_query::display::Shown;
use diwan_value::key::{self, Decoder};
use diwan_value::{Doc, DocBuf, DocBuilder, Value, doc};

/// The stages that follow a plan's access in `explain`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape<'a> {
    /// The sort, unless the access gives its order.
    pub sort: Option<Doc<'a>>,
    /// How many documents are skipped.
    pub skip: u64,
    /// How many documents are returned at most.
    pub limit: Option<u64>,
    /// The projection.
    pub projection: Option<Doc<'a>>,
    /// Whether index keys are returned in the documents' place.
    pub return_key: bool,
}

impl Shape<'_> {
    /// How many documents are returned if so many match.
    pub fn returned(&self, matches: u64) -> u64 {
        let left = matches.saturating_sub(self.skip);
        self.limit.map_or(left, |limit| left.min(limit))
    }
}

/// The plan as in `winningPlan`; with `stats`, as in `executionStages`.
pub fn explain_plan(plan: &Plan, filter: Doc<'_>, shape: &Shape<'_>, stats: Option<ScanStats>) -> DocBuf {
    let mut stage = access_stage(&plan.access, filter, plan.is_covered(), stats);
    let wrap = |name: &str, inner: DocBuf, extra: DocBuf| {
        let mut out = DocBuilder::new();
        out.append("stage", name).append_all(extra.as_doc());
        add_stats(&mut out, stats);
        out.append("inputStage", inner);
        out.finish()
    };
    if let Some(sort) = shape.sort {
        let mut extra = DocBuilder::new();
        extra.append("sortPattern", sort).append("memLimit", 104_857_600i32);
        if let Some(limit) = shape.limit {
            extra.append("limitAmount", Value::integer((limit + shape.skip) as i64));
        }
        extra.append("type", "simple");
        stage = wrap("SORT", stage, extra.finish());
    }
    if shape.skip > 0 {
        stage = wrap("SKIP", stage, doc! { "skipAmount": Value::integer(shape.skip as i64) });
    }
    if let Some(limit) = shape.limit.filter(|_| shape.sort.is_none()) {
        stage = wrap("LIMIT", stage, doc! { "limitAmount": Value::integer(limit as i64) });
    }
    if shape.return_key {
        return wrap("RETURN_KEY", stage, DocBuf::new());
    }
    if let Some(projection) = shape.projection {
        let name = if plan.is_covered() { "PROJECTION_COVERED" } else { "PROJECTION_SIMPLE" };
        stage = wrap(name, stage, doc! { "transformBy": projection });
    }
    stage
}

fn add_stats(out: &mut DocBuilder, stats: Option<ScanStats>) {
    if let Some(stats) = stats {
        out.append("nReturned", Value::integer(stats.returned as i64))
            .append("works", Value::integer((stats.docs_examined + stats.keys_examined + 1) as i64));
        out.append("isEOF", 1);
    }
}

fn access_stage(access: &Access, filter: Doc<'_>, covered: bool, stats: Option<ScanStats>) -> DocBuf {
    let mut out = DocBuilder::new();
    match access {
        Access::Nothing => {
            out.append("stage", "EOF");
            add_stats(&mut out, stats);
        }
        Access::Ids(ids) => {
            let is_one = ids.len() == 1;
            out.append("stage", if is_one { "EXPRESS_IXSCAN" } else { "CLUSTERED_IXSCAN" });
            if is_one {
                // The pattern is text here, as MongoDB writes it.
                out.append("keyPattern", "{ _id: 1 }").append("indexName", "_id_");
            }
            add_stats(&mut out, stats);
            if let Some(stats) = stats {
                out.append("keysExamined", Value::integer(stats.keys_examined as i64));
                out.append("docsExamined", Value::integer(stats.docs_examined as i64));
            }
        }
        Access::Collection { direction, .. } | Access::Natural { direction } => {
            let bounded = matches!(access, Access::Collection { ids, .. } if !ids.is_all());
            out.append("stage", if bounded { "CLUSTERED_IXSCAN" } else { "COLLSCAN" });
            if !filter.is_empty() {
                out.append("filter", filter);
            }
            add_stats(&mut out, stats);
            out.append("direction", direction_name(*direction));
            if let Some(stats) = stats {
                out.append("docsExamined", Value::integer(stats.docs_examined as i64));
            }
        }
        Access::Index(scan) if covered => return index_stage(scan, stats),
        Access::Index(scan) => {
            out.append("stage", "FETCH");
            if !filter.is_empty() {
                out.append("filter", filter);
            }
            add_stats(&mut out, stats);
            if let Some(stats) = stats {
                out.append("docsExamined", Value::integer(stats.docs_examined as i64));
            }
            out.append("inputStage", index_stage(scan, stats));
        }
        Access::Union(branches) => {
            out.append("stage", "SUBPLAN");
            let inputs: Vec<DocBuf> =
                branches.iter().map(|branch| access_stage(branch, Doc::EMPTY, false, None)).collect();
            add_stats(&mut out, stats);
            out.append("inputStage", doc! { "stage": "OR", "inputStages": inputs });
        }
    }
    out.finish()
}

fn direction_name(direction: Direction) -> &'static str {
    if direction == Direction::Forward { "forward" } else { "backward" }
}

fn index_stage(scan: &IndexScan, stats: Option<ScanStats>) -> DocBuf {
    let spec = &scan.index.spec;
    let mut out = DocBuilder::new();
    out.append("stage", "IXSCAN");
    add_stats(&mut out, stats);
    out.append("keyPattern", spec.key.as_doc()).append("indexName", spec.name.as_str());
    if let Some(collation) = &spec.collation {
        out.append("collation", collation.to_doc());
    }
    out.append("isMultiKey", scan.index.is_multikey());
    out.begin_document("multiKeyPaths");
    // MongoDB names the parts of the path that are arrays. The index only knows whether one is.
    for (at, field) in spec.fields.iter().enumerate() {
        let path = field.path.as_str();
        match scan.index.has_arrays(at) {
            true => out.append(path, vec![path]),
            false => out.append(path, Vec::<&str>::new()),
        };
    }
    out.end();
    out.append("isUnique", spec.unique).append("isSparse", spec.sparse);
    out.append("isPartial", spec.partial_filter.is_some()).append("indexVersion", 2);
    out.append("direction", direction_name(scan.direction));
    out.begin_document("indexBounds");
    if let Some(limits) = &scan.limits {
        out.append("startKey", limit_document(scan, &limits.start));
        out.append("endKey", limit_document(scan, &limits.end));
    }
    let bounds = scan.bounds.iter().filter(|_| scan.limits.is_none());
    for (at, (set, name)) in bounds.zip(scan.field_names()).enumerate() {
        let direction = scan.field_direction(at);
        let mut shown: Vec<String> = set.as_slice().iter().map(|one| show_interval(one, direction)).collect();
        if scan.direction == Direction::Reverse {
            shown.reverse();
        }
        out.append(name, shown);
    }
    out.end();
    if let Some(stats) = stats {
        out.append("keysExamined", Value::integer(stats.keys_examined as i64));
    }
    out.finish()
}

/// A limit of an index's part as a document. A limit that the query does not set has the first field only.
fn limit_document(scan: &IndexScan, bytes: &[u8]) -> DocBuf {
    let mut decoder = Decoder::new(bytes, &[]);
    let mut out = DocBuilder::new();
    for (at, name) in scan.field_names().enumerate() {
        if let Some(value) = decoder.next(scan.field_direction(at)) {
            out.append(name, value);
        }
    }
    out.finish()
}

/// An interval as MongoDB prints it: `[5, 9)`, `[MinKey, MaxKey]`.
fn show_interval(interval: &Interval, direction: key::Direction) -> String {
    let show = |bytes: &[u8], lowest: &str| match Decoder::new(bytes, &[]).next(direction) {
        Some(value) => Shown(value.as_value()).to_string(),
        // The cut is the border of a type.
        None => lowest.to_owned(),
    };
    let (min, max) = match direction {
        key::Direction::Ascending => ("MinKey", "MaxKey"),
        key::Direction::Descending => ("MaxKey", "MinKey"),
    };
    let border = |at_start: bool| if at_start { "-inf.0" } else { "inf.0" };
    let start = match &interval.start {
        Cut::Before(bytes) => format!("[{}", show(bytes, border(true))),
        Cut::After(bytes) => format!("({}", show(bytes, border(true))),
        Cut::Min | Cut::Max => format!("[{min}"),
    };
    let end = match &interval.end {
        Cut::Before(bytes) => format!("{})", show(bytes, border(false))),
        Cut::After(bytes) => format!("{}]", show(bytes, border(false))),
        Cut::Min | Cut::Max => format!("{max}]"),
    };
    format!("{start}, {end}")
}
