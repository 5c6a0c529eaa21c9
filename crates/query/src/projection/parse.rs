//! Parses projections.

use super::{Branch, FieldProjection, Projection, Slice};
use crate::display::{ShownDoc, ShownField};
use crate::error::{Error, Result, code};
use crate::expr::{Expr, ParseEnv, field_path};
use crate::filter::{Filter, FilterEnv};
use diwan_value::{Doc, Element, Value, doc};

/// The environment of the parser for find projections.
pub struct ProjectionEnv<'e> {
    /// The variables that expressions may use.
    pub scope: &'e ParseEnv<'e>,
    /// The environment for `$elemMatch`.
    pub filter: &'e FilterEnv<'e>,
    /// The query, which the positional `$` requires.
    pub query: Option<Doc<'e>>,
}

/// Whether a projection keeps or drops the fields that it names, once that is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProjectionKind {
    Inclusion,
    Exclusion,
}

/// The state of the parser.
struct ProjectionParser<'e> {
    scope: &'e ParseEnv<'e>,
    /// The environment that only finds have; absent in aggregations.
    find: Option<&'e ProjectionEnv<'e>>,
    root: Branch,
    kind: Option<ProjectionKind>,
    id_mentioned: bool,
    id_kept: bool,
    id_dropped: bool,
    positional: bool,
    elem_match: bool,
    slice: bool,
}

/// Parses the projection of a find.
pub(super) fn find(spec: Doc<'_>, env: &ProjectionEnv<'_>) -> Result<Projection> {
    ProjectionParser::new(env.scope, Some(env)).parse(spec)
}

/// Parses the argument of `$project`.
pub(super) fn stage(spec: Value<'_>, scope: &ParseEnv<'_>) -> Result<Projection> {
    let Value::Document(spec) = spec else {
        return Err(Error::new(15969, "$project specification must be an object"));
    };
    let parsed = if spec.is_empty() {
        Err(Error::new(51272, "projection specification must have at least one field"))
    } else {
        ProjectionParser::new(scope, None).parse(spec)
    };
    parsed.map_err(|error| within("Invalid $project", error))
}

/// Parses the argument of `$unset`.
pub(super) fn unset(spec: Value<'_>) -> Result<Projection> {
    let no_string = "$unset specification must be a string or an array containing only string values";
    let scope = ParseEnv::new();
    let mut parser = ProjectionParser::new(&scope, None);
    let single = [spec];
    let paths: Vec<Value<'_>> = match spec {
        Value::Array(paths) if paths.is_empty() => {
            return Err(Error::new(
                31119,
                "$unset specification must be a string or an array with at least one field",
            ));
        }
        Value::Array(paths) => paths.iter().collect(),
        Value::String(_) => single.to_vec(),
        _ => {
            return Err(Error::new(31002, "$unset specification must be a string or an array"));
        }
    };
    for path in paths {
        let Value::String(path) = path else { return Err(Error::new(31120, no_string)) };
        parser.insert(path, FieldProjection::Drop).map_err(|error| within("Invalid $unset", error))?;
    }
    Ok(Projection { root: parser.root, inclusion: false, positional: false })
}

fn within(what: &str, error: Error) -> Error {
    Error::new(error.code, format!("{what} :: caused by :: {}", error.message))
}

impl<'e> ProjectionParser<'e> {
    fn new(scope: &'e ParseEnv<'e>, find: Option<&'e ProjectionEnv<'e>>) -> ProjectionParser<'e> {
        ProjectionParser {
            scope,
            find,
            root: Branch::default(),
            kind: None,
            id_mentioned: false,
            id_kept: false,
            id_dropped: false,
            positional: false,
            elem_match: false,
            slice: false,
        }
    }

    fn parse(mut self, spec: Doc<'_>) -> Result<Projection> {
        for element in spec {
            let name = element.key_str();
            self.id_mentioned |= name == "_id" || name.starts_with("_id.");
            self.element(element, "")?;
        }
        // A projection with only `_id` and find operators: the operators determine the kind.
        let kind = self.kind.unwrap_or({
            let included = if self.slice { self.id_kept } else { self.elem_match || self.id_kept };
            if included { ProjectionKind::Inclusion } else { ProjectionKind::Exclusion }
        });
        if kind == ProjectionKind::Inclusion && !self.id_mentioned {
            self.root.push("_id", FieldProjection::Keep);
        }
        if kind == ProjectionKind::Exclusion && self.id_kept {
            self.root.remove("_id");
        }
        Ok(Projection {
            root: self.root,
            inclusion: kind == ProjectionKind::Inclusion,
            positional: self.positional,
        })
    }

    /// Parses one field of the projection, or of the document at `outer` inside it.
    fn element(&mut self, element: Element<'_>, outer: &str) -> Result<()> {
        let name = element.key_str();
        let path = if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") };
        let positional = name.strip_suffix(".$");
        if positional.is_some() && self.find.is_none() {
            let text = "Cannot use positional projection in aggregation projection";
            return Err(Error::new(31324, text));
        }
        if name.contains(".$.") {
            let text = "As of 4.4, it's illegal to specify positional operator in the middle of a path.Positional \
                        projection may only be used at the end, for example: a.b.$. If the query previously used a form \
                        like a.b.$.d, remove the parts following the '$' and the results will be equivalent.";
            return Err(Error::new(31394, text));
        }
        match element.value() {
            Value::Document(inner) => {
                if positional.is_some() {
                    let text = "positional projection cannot be used with an expression or sub object";
                    return Err(Error::new(31271, text));
                }
                self.document(inner, &path, outer.is_empty())
            }
            Value::Boolean(flag) => self.flag(flag, name, &path, outer, positional),
            number if number.is_number() => {
                let zero = diwan_value::compare(number, Value::Int32(0)).is_eq();
                self.flag(!zero, name, &path, outer, positional)
            }
            literal => {
                if positional.is_some() {
                    let text = "positional projection cannot be used with a literal";
                    return Err(Error::new(31308, text));
                }
                let expr = Expr::parse(literal, self.scope)?;
                // Inserting first lets the error for conflicting paths take precedence.
                self.insert(&path, FieldProjection::Computed(expr))?;
                if self.kind == Some(ProjectionKind::Exclusion) {
                    let shown = ShownField(name, literal);
                    let text = format!("Cannot use an expression {shown} in an exclusion projection");
                    return Err(Error::new(31310, text));
                }
                self.kind = Some(ProjectionKind::Inclusion);
                Ok(())
            }
        }
    }

    /// Parses `{path: true}` or `{path: false}`.
    fn flag(
        &mut self,
        keep: bool,
        name: &str,
        path: &str,
        outer: &str,
        positional: Option<&str>,
    ) -> Result<()> {
        let whole_id = name == "_id" && outer.is_empty();
        let (kind, other) = if keep {
            match positional {
                Some(before) => self.positional(before, outer)?,
                None => self.insert(path, FieldProjection::Keep)?,
            }
            self.id_kept |= whole_id;
            (ProjectionKind::Inclusion, ProjectionKind::Exclusion)
        } else {
            if positional.is_some() {
                return Err(Error::new(31395, "positional projection cannot be used with exclusion"));
            }
            self.insert(path, FieldProjection::Drop)?;
            self.id_dropped |= whole_id;
            (ProjectionKind::Exclusion, ProjectionKind::Inclusion)
        };
        if whole_id {
            return Ok(());
        }
        if self.kind == Some(other) {
            return Err(if keep {
                let text = format!("Cannot do inclusion on field {name} in exclusion projection");
                Error::new(31253, text)
            } else {
                let text = format!("Cannot do exclusion on field {name} in inclusion projection");
                Error::new(31254, text)
            });
        }
        self.kind = Some(kind);
        Ok(())
    }

    /// Parses `{path: document}`: an operator, or projections of inner fields.
    fn document(&mut self, inner: Doc<'_>, path: &str, top_level: bool) -> Result<()> {
        let mut elements = inner.iter();
        let Some(first) = elements.next() else {
            let text = "An empty sub-projection is not a valid value. Found empty object at path";
            return Err(Error::new(51270, text));
        };
        let operator = first.key_str();
        if elements.next().is_none() && operator.starts_with('$') {
            return match (operator, self.find) {
                ("$slice", Some(_)) => self.find_slice(first.value(), inner, path),
                ("$elemMatch", Some(env)) => self.elem_match(first.value(), inner, path, top_level, env),
                ("$elemMatch", None) => {
                    let text = "Cannot use $elemMatch in this context";
                    Err(Error::new(code::INVALID_PIPELINE_OPERATOR, text))
                }
                ("$meta", _) => Err(meta_error(first.value())),
                _ => self.expression(inner, path),
            };
        }
        self.branch(path)?;
        inner.iter().try_for_each(|element| self.element(element, path))
    }

    /// Parses `{path: {$operator: …}}` in the expression language.
    fn expression(&mut self, inner: Doc<'_>, path: &str) -> Result<()> {
        if self.kind == Some(ProjectionKind::Exclusion) {
            let text = "Cannot use expression other than $meta in exclusion projection";
            return Err(Error::new(31252, text));
        }
        self.kind = Some(ProjectionKind::Inclusion);
        let expr = Expr::parse_document(inner, self.scope).map_err(|error| match inner.iter().next() {
            Some(first)
                if error.code == code::INVALID_PIPELINE_OPERATOR
                    && error.message == format!("Unrecognized expression '{}'", first.key_str()) =>
            {
                Error::new(31325, format!("Unknown expression {}", first.key_str()))
            }
            _ => error,
        })?;
        self.insert(path, FieldProjection::Computed(expr))
    }

    /// Parses the find operator `$slice`, or the expression with the same name.
    fn find_slice(&mut self, argument: Value<'_>, inner: Doc<'_>, path: &str) -> Result<()> {
        match parse_slice(argument) {
            Ok(slice) => {
                self.insert(path, FieldProjection::Slice(slice))?;
                self.slice = true;
                Ok(())
            }
            Err(no_find) => self.expression(inner, path).map_err(|error| {
                let text = format!(
                    "Invalid $slice syntax. The given syntax {} did not match the find() syntax because :: \
                     Location{}: {} :: The given syntax did not match the expression $slice syntax. :: caused by \
                     :: {}",
                    ShownDoc(inner),
                    no_find.code,
                    no_find.message,
                    error.message
                );
                Error::new(error.code, text)
            }),
        }
    }

    fn elem_match(
        &mut self,
        argument: Value<'_>,
        inner: Doc<'_>,
        path: &str,
        top_level: bool,
        env: &ProjectionEnv<'_>,
    ) -> Result<()> {
        let Some(condition) = argument.as_doc() else {
            let kind = argument.tag().alias();
            let text = format!("elemMatch: Invalid argument, object required, but got {kind}");
            return Err(Error::new(31274, text));
        };
        if self.positional {
            return Err(Error::new(31255, "Cannot specify positional operator and $elemMatch."));
        }
        if !top_level || path.contains('.') {
            return Err(Error::new(31275, "Cannot use $elemMatch projection on a nested field."));
        }
        reject_special_features(condition)?;
        let filter = Filter::parse(doc! { path: inner }.as_doc(), env.filter)?;
        self.insert(path, FieldProjection::ElemMatch(Box::new(filter)))?;
        self.elem_match = true;
        Ok(())
    }

    /// Parses `{"path.$": true}`. `before` is the path before the operator.
    fn positional(&mut self, before: &str, outer: &str) -> Result<()> {
        if self.positional {
            let text = "Cannot specify more than one positional projection per query.";
            return Err(Error::new(31276, text));
        }
        if self.elem_match {
            return Err(Error::new(31256, "Cannot specify positional operator and $elemMatch."));
        }
        let Some(query) = self.find.and_then(|env| env.query) else {
            return Err(Error::new(51050, "Projections with a positional operator require a matcher"));
        };
        if before.is_empty() {
            return Err(Error::new(5392900, "Projection on field .$ is invalid"));
        }
        let path = if outer.is_empty() { before.to_owned() } else { format!("{outer}.{before}") };
        field_path(&path)?;
        reject_special_features(query)?;
        self.insert(&path, FieldProjection::Positional)?;
        self.positional = true;
        Ok(())
    }

    /// Inserts `entry` at `path`.
    fn insert(&mut self, path: &str, entry: FieldProjection) -> Result<()> {
        let parsed = field_path(path)?;
        let names: Vec<&str> = parsed.names().collect();
        let Some((last, leading)) = names.split_last() else { return Ok(()) };
        let computed = matches!(entry, FieldProjection::Computed(_) | FieldProjection::ElemMatch(_));
        let positional = matches!(entry, FieldProjection::Positional);
        let branch = descend(&mut self.root, leading, path, computed, positional)?;
        if branch.position(last.as_bytes()).is_some() {
            return Err(Error::new(31250, format!("Path collision at {path}")));
        }
        branch.push(last, entry);
        Ok(())
    }

    /// Creates the branch for the document at `path`, which no other entry may name.
    fn branch(&mut self, path: &str) -> Result<()> {
        self.insert(path, FieldProjection::Branch(Branch::default()))
    }
}

/// Finds or creates the branch at `names` below `branch`.
fn descend<'b>(
    branch: &'b mut Branch,
    names: &[&str],
    path: &str,
    computed: bool,
    positional: bool,
) -> Result<&'b mut Branch> {
    branch.computed |= computed;
    branch.positional |= positional;
    let Some((name, rest)) = names.split_first() else { return Ok(branch) };
    let at = match branch.position(name.as_bytes()) {
        Some(at) => at,
        None => {
            branch.push(name, FieldProjection::Branch(Branch::default()));
            branch.fields.len() - 1
        }
    };
    match &mut branch.fields[at].1 {
        FieldProjection::Branch(inner) => descend(inner, rest, path, computed, positional),
        _ => {
            let remaining = path.split('.').skip(1).collect::<Vec<_>>().join(".");
            let text = format!("Path collision at {path} remaining portion {remaining}");
            Err(Error::new(31249, text))
        }
    }
}

/// Rejects queries that do not determine the matching element of an array.
fn reject_special_features(condition: Doc<'_>) -> Result<()> {
    for element in condition {
        match (element.key_str(), element.value()) {
            (name @ ("$expr" | "$jsonSchema"), _) => {
                let text = format!("{name} is not allowed in this context");
                return Err(Error::new(code::QUERY_FEATURE_NOT_ALLOWED, text));
            }
            ("$and" | "$or" | "$nor", Value::Array(branches)) => {
                branches.iter().filter_map(Value::as_doc).try_for_each(reject_special_features)?;
            }
            (_, Value::Document(inner)) => {
                let inner = inner.get_doc("$elemMatch").or_else(|| inner.get_doc("$not"));
                inner.map_or(Ok(()), reject_special_features)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Parses the argument of the find operator `$slice`.
fn parse_slice(argument: Value<'_>) -> Result<Slice> {
    let size = |number: i32| usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    if let Some(count) = to_i32(argument) {
        return Ok(if count < 0 { Slice::Last(size(count)) } else { Slice::First(size(count)) });
    }
    let Value::Array(arguments) = argument else {
        return Err(Error::new(31273, "$slice only supports numbers and [skip, limit] arrays"));
    };
    let (Some(skip), Some(limit), None) = (arguments.get(0), arguments.get(1), arguments.get(2)) else {
        return Err(Error::new(31272, "$slice array argument should be of form [skip, limit]"));
    };
    let Some(from) = to_i32(skip) else {
        let text = format!("$slice expects the skip argument to be a number, got {}", skip.tag().alias());
        return Err(Error::new(31257, text));
    };
    let Some(count) = to_i32(limit) else {
        let text = format!("$slice expects the limit argument to be a number, got {}", limit.tag().alias());
        return Err(Error::new(31258, text));
    };
    if count <= 0 {
        return Err(Error::new(31259, format!("$slice limit must be positive, got {count}")));
    }
    Ok(if from < 0 { Slice::FromEnd(size(from), size(count)) } else { Slice::From(size(from), size(count)) })
}

/// Truncates a number to a 32-bit integer.
fn to_i32(value: Value<'_>) -> Option<i32> {
    match value {
        Value::Int32(number) => Some(number),
        Value::Int64(number) => Some(number.clamp(i32::MIN.into(), i32::MAX.into()) as i32),
        Value::Double(number) => Some(number as i32),
        Value::Decimal128(number) => Some(number.to_f64() as i32),
        _ => None,
    }
}

/// The error for `{$meta: kind}` in a projection.
fn meta_error(kind: Value<'_>) -> Error {
    let Value::String(name) = kind else {
        return Error::new(17307, "$meta only supports string arguments");
    };
    let metadata = match name {
        "textScore" => "text score",
        "searchScore" => "$search score",
        "searchHighlights" => "$search highlights",
        "geoNearDistance" => "$geoNear distance",
        "geoNearPoint" => "$geoNear point",
        "randVal" => "rand val",
        "sortKey" => "sort key",
        "recordId" | "indexKey" => {
            return Error::new(code::NOT_IMPLEMENTED, format!("$meta of '{name}' is not implemented"));
        }
        _ => return Error::new(17308, format!("Unsupported argument to $meta: {name}")),
    };
    Error::new(40218, format!("query requires {metadata} metadata, but it is not available"))
}
