//! Parses a whole filter: fields, logical operators, and operators on the document.

use super::operand::Operand;
use super::regex::Pattern;
use super::schema::Schema;
use super::{ExprFilter, Filter, FilterEnv, Predicate, integer, operators};
use crate::error::{Error, Result, code};
use crate::mango::Selector;
use diwan_value::{Doc, Path, Value};
use std::sync::Arc;

/// How deep filters may nest. Documents from clients nest less; this limits documents built in memory.
const MAX_DEPTH: usize = 200;

/// The maximum number of parts in a path.
const MAX_PATH_PARTS: usize = 255;

/// The parser's state at one place of the syntax.
#[derive(Clone, Copy)]
pub(super) struct FilterParser<'e> {
    pub env: &'e FilterEnv<'e>,
    /// Whether the filter applies to documents inside arrays (`$elemMatch`), where operators on the whole document are
    /// not allowed.
    pub nested: bool,
    depth: usize,
}

/// Parses a filter for whole documents.
pub(super) fn filter(doc: Doc<'_>, env: &FilterEnv<'_>) -> Result<Filter> {
    FilterParser::new(env).filter(doc)
}

impl<'e> FilterParser<'e> {
    /// The parser of a filter for whole documents.
    pub fn new(env: &'e FilterEnv<'e>) -> FilterParser<'e> {
        FilterParser { env, nested: false, depth: 0 }
    }

    /// The parser one level deeper, for values inside arrays.
    pub fn inside_array(self) -> Result<FilterParser<'e>> {
        Ok(FilterParser { nested: true, ..self.deeper()? })
    }

    /// The parser one level deeper.
    pub fn deeper(self) -> Result<FilterParser<'e>> {
        if self.depth >= MAX_DEPTH {
            return Err(Error::new(
                code::OVERFLOW,
                format!("Filter nesting depth exceeds the limit of {MAX_DEPTH}"),
            ));
        }
        Ok(FilterParser { depth: self.depth + 1, ..self })
    }

    /// An operand with the filter's collation.
    pub fn operand(self, value: Value<'_>) -> Operand {
        Operand::new(value, self.env.collator())
    }

    /// Parses a filter document.
    pub fn filter(self, doc: Doc<'_>) -> Result<Filter> {
        let mut children = Vec::new();
        for element in doc.iter() {
            let (name, value) = (element.key_str(), element.value());
            if name.starts_with('$') {
                children.extend(self.document_operator(name, value)?);
            } else {
                let path = path(name)?;
                let predicates = self.field(name, value)?;
                children
                    .extend(predicates.into_iter().map(|predicate| Filter::path(path.clone(), predicate)));
            }
        }
        Ok(Filter::and(children))
    }

    /// Parses a field's value: an operator document, a regular expression or a constant.
    pub fn field(self, name: &str, value: Value<'_>) -> Result<Vec<Predicate>> {
        match value {
            Value::Document(doc) if is_operator_document(doc, false) => operators::parse(self, name, doc),
            Value::Regex { pattern, options } => Ok(vec![Predicate::Regex(Pattern::new(pattern, options)?)]),
            _ => Ok(vec![self.equality(value)?]),
        }
    }

    /// `$eq`.
    pub fn equality(self, value: Value<'_>) -> Result<Predicate> {
        operators::comparable(value)?;
        Ok(Predicate::Eq(self.operand(value)))
    }

    /// Parses an operator in the position of a field name. `$comment` gives no filter.
    fn document_operator(self, name: &str, value: Value<'_>) -> Result<Option<Filter>> {
        Ok(Some(match name {
            "$and" => Filter::and_of_one_or_more(self.list(name, value)?),
            "$or" => Filter::Or(self.list(name, value)?),
            "$nor" => Filter::Nor(self.list(name, value)?),
            "$comment" => return Ok(None),
            "$expr" if self.nested => {
                return Err(Error::bad_value("$expr can only be applied to the top-level document"));
            }
            "$expr" => Filter::Expr(Box::new(ExprFilter::parse(value, self.env)?)),
            "$jsonSchema" => match value {
                Value::Document(schema) => Filter::JsonSchema(Arc::new(Schema::parse(schema)?)),
                _ => return Err(Error::type_mismatch("$jsonSchema must be an object")),
            },
            // An extension to MongoDB: a CouchDB selector. Partial indexes created over HTTP contain one.
            "$mango" if !self.nested => mango(value)?,
            "$alwaysTrue" => self.constant(name, value, Filter::AlwaysTrue)?,
            "$alwaysFalse" => self.constant(name, value, Filter::AlwaysFalse)?,
            "$sampleRate" => sample_rate(value)?,
            // The members of a DBRef, inside `$elemMatch`, are ordinary fields.
            "$ref" | "$id" | "$db" => Filter::path(Path::new(name), self.equality(value)?),
            "$text" if self.nested => {
                return Err(Error::bad_value("$text can only be applied to the top-level document"));
            }
            "$text" => {
                return Err(Error::new(code::INDEX_NOT_FOUND, "text index required for $text query"));
            }
            "$where" if self.nested => {
                return Err(Error::bad_value("$elemMatch cannot contain $where expression"));
            }
            "$where" => return Err(Error::bad_value("no globalScriptEngine in $where parsing")),
            _ => {
                return Err(Error::bad_value(format!(
                    "unknown top level operator: {name}. If you have a field name that starts with a '$' symbol, \
                     consider using $getField or $setField."
                )));
            }
        }))
    }

    /// Parses the filters of `$and`, `$or`, `$nor`.
    fn list(self, name: &str, value: Value<'_>) -> Result<Vec<Filter>> {
        let Value::Array(array) = value else {
            return Err(Error::bad_value(format!("{name} must be an array")));
        };
        if array.is_empty() {
            return Err(Error::bad_value("$and/$or/$nor must be a nonempty array"));
        }
        let inner = self.deeper()?;
        let one = |value| match value {
            Value::Document(doc) => inner.filter(doc),
            _ => Err(Error::bad_value("$or/$and/$nor entries need to be full objects")),
        };
        array.iter().map(one).collect()
    }

    fn constant(self, name: &str, value: Value<'_>, filter: Filter) -> Result<Filter> {
        match integer::exact(name, value).map_err(Error::failed_to_parse)? {
            1 => Ok(filter),
            _ => Err(Error::failed_to_parse(format!("{name} must be an integer value of 1"))),
        }
    }
}

impl Filter {
    /// An explicit `$and`, which is kept even if it contains one filter.
    fn and_of_one_or_more(children: Vec<Filter>) -> Filter {
        Filter::And(super::Conjunction::new(children))
    }
}

/// Checks a field's path.
fn path(name: &str) -> Result<Path> {
    let path = Path::new(name);
    if path.depth() > MAX_PATH_PARTS {
        return Err(Error::new(
            code::OVERFLOW,
            format!("FieldPath is too long: more than {MAX_PATH_PARTS} parts"),
        ));
    }
    Ok(path)
}

/// `$mango`.
fn mango(value: Value<'_>) -> Result<Filter> {
    let selector = Selector::parse_value(value).map_err(|error| Error::bad_value(error.reason))?;
    if selector.names_metadata() {
        return Err(Error::bad_value("$mango cannot ask for what is not in stored documents"));
    }
    Ok(selector.stored())
}

/// `$sampleRate`.
fn sample_rate(value: Value<'_>) -> Result<Filter> {
    let rate = match value {
        Value::Double(rate) => rate,
        Value::Int32(rate) => rate.into(),
        Value::Int64(0) => 0.0,
        Value::Int64(1) => 1.0,
        Value::Int64(_) => f64::NAN,
        _ => return Err(Error::bad_value("argument to $sampleRate must be a numeric type")),
    };
    if !(0.0..=1.0).contains(&rate) {
        return Err(Error::bad_value("numeric argument to $sampleRate must be in [0, 1]"));
    }
    Ok(Filter::SampleRate(rate))
}

/// Whether a document in the position of a value contains operators: its first name begins with `$` and it is not a
/// DBRef. A DBRef has `$ref` and `$id`, or, if `incomplete` ones count, any of `$ref`, `$id` and `$db`.
pub(super) fn is_operator_document(doc: Doc<'_>, incomplete: bool) -> bool {
    if !doc.iter().next().is_some_and(|first| first.key.starts_with(b"$")) {
        return false;
    }
    let has = |name| doc.contains_key(name);
    let reference =
        if incomplete { has("$ref") || has("$id") || has("$db") } else { has("$ref") && has("$id") };
    !reference
}

/// Whether an operator may stand in the position of a field name, so that the document around it is a filter itself.
pub(super) fn is_document_operator(name: &str) -> bool {
    matches!(
        name,
        "$and"
            | "$or"
            | "$nor"
            | "$comment"
            | "$expr"
            | "$jsonSchema"
            | "$alwaysTrue"
            | "$alwaysFalse"
            | "$sampleRate"
            | "$ref"
            | "$id"
            | "$db"
            | "$text"
            | "$where"
    )
}
