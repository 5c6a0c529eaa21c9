//! Parses the expression language.

use super::operator::OperatorForm;
use super::{Context, EvalEnv, Expr, Variable, table};
use crate::display::ShownDoc;
use crate::error::{Error, Result, code};
use bumpalo::Bump;
use diwan_value::{Collator, Doc, Path, Value, ValueBuf};
use std::sync::{Arc, OnceLock};

/// How deep expressions may nest.
const MAX_DEPTH: usize = 200;

/// The largest constant that folding may produce.
const MAX_FOLDED_BYTES: usize = 4096;

/// The slot of a bound variable's value during evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub(super) usize);

/// The parser's scope: the variables at one place of the syntax. A scope borrows the outer one. Slots are allocated
/// like stack positions, so sibling scopes share them.
#[derive(Default)]
pub struct ParseEnv<'p> {
    outer: Option<&'p ParseEnv<'p>>,
    variables: Vec<(String, Binding)>,
    slots: usize,
    depth: usize,
    /// The collation for comparisons in constant folding.
    collator: Option<Arc<Collator>>,
    /// Receives the first error from folding a constant.
    failed: Option<Arc<OnceLock<Error>>>,
}

/// The meaning of a name in scope.
enum Binding {
    Slot(Slot),
    Constant(ValueBuf),
}

impl<'p> ParseEnv<'p> {
    /// The outermost scope, with only the system variables.
    pub fn new() -> ParseEnv<'static> {
        ParseEnv::default()
    }

    /// The outermost scope with the operation's `let`: the names of [`Context::variables`], in order.
    pub fn with_let<'n>(names: impl IntoIterator<Item = &'n str>) -> ParseEnv<'static> {
        let mut env = ParseEnv::new();
        for name in names {
            env.variable(name);
        }
        env
    }

    /// Sets the operation's collation, which must also be in its [`Context`].
    pub fn with_collator(mut self, collator: Option<Arc<Collator>>) -> ParseEnv<'p> {
        self.collator = collator;
        self
    }

    /// Stores the first error of a constant expression in `failed`, for callers that report it before any document is
    /// read.
    pub(crate) fn noting_failures(mut self, failed: Arc<OnceLock<Error>>) -> ParseEnv<'p> {
        self.failed = Some(failed);
        self
    }

    /// A nested scope with its own variables.
    pub fn inner(&self) -> ParseEnv<'_> {
        ParseEnv {
            outer: Some(self),
            variables: Vec::new(),
            slots: self.slots,
            depth: self.depth,
            collator: self.collator.clone(),
            failed: self.failed.clone(),
        }
    }

    /// Adds a variable to this scope. The operator binds its slot during evaluation.
    pub(crate) fn variable(&mut self, name: &str) -> Slot {
        let slot = Slot(self.slots);
        self.slots += 1;
        self.variables.push((name.to_owned(), Binding::Slot(slot)));
        slot
    }

    /// Adds a variable with a constant value to this scope (such as `$$PRUNE` of `$redact`).
    pub fn constant(&mut self, name: &str, value: Value<'_>) {
        self.variables.push((name.to_owned(), Binding::Constant(ValueBuf::new(value))));
    }

    /// The scope one nesting level deeper.
    fn deeper(&self) -> Result<ParseEnv<'_>> {
        if self.depth >= MAX_DEPTH {
            let text = format!("Expression nesting depth exceeds the limit of {MAX_DEPTH} levels");
            return Err(Error::new(code::OVERFLOW, text));
        }
        let mut inner = self.inner();
        inner.depth += 1;
        Ok(inner)
    }

    /// Replaces a call, document or array of constants by its value. If evaluation fails, the expression stays, because
    /// the error must occur at evaluation.
    pub(crate) fn fold(&self, expr: Expr) -> Expr {
        let children = expr.children();
        let constant = match &expr {
            Expr::Call { .. } => !children.is_empty(),
            Expr::Document(_) | Expr::Array(_) => true,
            _ => false,
        };
        if !constant || !children.iter().all(|child| matches!(child, Expr::Literal(_) | Expr::Missing)) {
            return expr;
        }
        let context = Context { collator: self.collator.clone(), ..Context::default() };
        let arena = Bump::new();
        match expr.eval(&EvalEnv::new(&arena, Doc::EMPTY, &context)) {
            Ok(Some(value)) if value_bytes(value) <= MAX_FOLDED_BYTES => Expr::Literal(ValueBuf::new(value)),
            Ok(None) => Expr::Missing,
            Err(error) => {
                if let Some(failed) = &self.failed {
                    // Only the first error is kept.
                    let _ = failed.set(error);
                }
                expr
            }
            Ok(Some(_)) => expr,
        }
    }

    fn lookup(&self, name: &str) -> Option<&Binding> {
        let mut scope = Some(self);
        while let Some(env) = scope {
            if let Some((_, binding)) = env.variables.iter().rev().find(|(known, _)| known == name) {
                return Some(binding);
            }
            scope = env.outer;
        }
        None
    }

    /// The expression for variable `name` with an optional `path` inside it.
    fn read(&self, name: &str, path: Option<Path>) -> Result<Expr> {
        let variable = match self.lookup(name) {
            Some(Binding::Slot(slot)) => Variable::Slot(*slot),
            Some(Binding::Constant(value)) if path.is_none() => return Ok(Expr::Literal(value.clone())),
            Some(Binding::Constant(_)) => return Ok(Expr::Missing),
            None => match name {
                "ROOT" | "CURRENT" => Variable::Root,
                "NOW" => Variable::Now,
                "CLUSTER_TIME" => Variable::ClusterTime,
                "USER_ROLES" => Variable::UserRoles,
                "REMOVE" => return Ok(Expr::Missing),
                _ => return Err(Error::new(17276, format!("Use of undefined variable: {name}"))),
            },
        };
        Ok(Expr::Variable { variable, path })
    }
}

impl Expr {
    /// Parses any value as an expression.
    pub fn parse(value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
        match value {
            Value::String(text) if text.starts_with('$') => parse_field_path(text, env),
            Value::Document(doc) => Expr::parse_document(doc, env),
            Value::Array(array) => {
                let env = env.deeper()?;
                let items = array.iter().map(|item| Expr::parse(item, &env)).collect::<Result<Vec<_>>>()?;
                Ok(env.fold(Expr::Array(items)))
            }
            constant => Ok(Expr::Literal(ValueBuf::new(constant))),
        }
    }

    /// Parses a document: an operator with its arguments, or an object expression.
    pub fn parse_document(doc: Doc<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
        let env = env.deeper()?;
        match doc.iter().next() {
            Some(first) if first.key.starts_with(b"$") => parse_operator(doc, &env),
            _ => parse_object(doc, &env),
        }
    }
}

/// Parses `{$operator: arguments}`.
fn parse_operator(doc: Doc<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let mut elements = doc.iter();
    let (Some(element), None) = (elements.next(), elements.next()) else {
        let text =
            format!("An object representing an expression must have exactly one field: {}", ShownDoc(doc));
        return Err(Error::new(15983, text));
    };
    let name = element.key_str();
    let Some(operator) = table::find(name) else {
        let text = format!("Unrecognized expression '{name}'");
        return Err(Error::new(code::INVALID_PIPELINE_OPERATOR, text));
    };
    match operator.form {
        OperatorForm::Syntax(parser) => parser(operator.name, element.value(), env),
        OperatorForm::Function(arity, function) => {
            let args = parse_arguments(element.value(), env)?;
            arity.check(operator.name, args.len())?;
            Ok(env.fold(Expr::Call { operator: operator.name, function, args }))
        }
    }
}

/// Parses a list of arguments. A value that is not an array is the single argument.
pub(crate) fn parse_arguments(value: Value<'_>, env: &ParseEnv<'_>) -> Result<Vec<Expr>> {
    match value {
        Value::Array(array) => array.iter().map(|item| Expr::parse(item, env)).collect(),
        single => Ok(vec![Expr::parse(single, env)?]),
    }
}

/// Parses an object expression.
fn parse_object(doc: Doc<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let mut fields: Vec<(String, Expr)> = Vec::new();
    for element in doc.iter() {
        let name = element.key_str();
        check_field_name(name)?;
        if name.contains('.') {
            let text = "FieldPath field names may not contain '.'. Consider using $getField or $setField.";
            return Err(Error::new(16412, text));
        }
        if fields.iter().any(|(known, _)| known == name) {
            let text = format!("duplicate field name specified in object literal: {name}");
            return Err(Error::new(16406, text));
        }
        fields.push((name.to_owned(), Expr::parse(element.value(), env)?));
    }
    Ok(env.fold(Expr::Document(fields)))
}

/// Parses `"$a.b"`, `"$$variable"` and `"$$variable.path"`.
fn parse_field_path(text: &str, env: &ParseEnv<'_>) -> Result<Expr> {
    if text == "$" {
        return Err(Error::new(16872, "'$' by itself is not a valid FieldPath"));
    }
    let Some(named) = text.strip_prefix("$$") else {
        return env.read("CURRENT", Some(field_path(&text[1..])?));
    };
    if named.is_empty() {
        return Err(Error::failed_to_parse("empty variable names are not allowed"));
    }
    let (name, path) = match named.split_once('.') {
        Some((name, path)) => (name, Some(field_path(path)?)),
        None => (named, None),
    };
    check_variable_name(name, |first| first.is_ascii_alphabetic())?;
    env.read(name, path)
}

/// Checks and splits a dotted path by the rules of expressions.
pub(crate) fn field_path(text: &str) -> Result<Path> {
    if text.is_empty() {
        return Err(Error::new(40352, "FieldPath cannot be constructed with empty string"));
    }
    if text.ends_with('.') {
        return Err(Error::new(40353, "FieldPath must not end with a '.'."));
    }
    let path = Path::new(text);
    if path.depth() > MAX_DEPTH {
        return Err(Error::new(code::OVERFLOW, "FieldPath is too long"));
    }
    path.names().try_for_each(check_field_name)?;
    Ok(path)
}

/// The fields of a DBRef, which are valid in paths despite their `$`.
const REFERENCE_FIELDS: [&str; 3] = ["$db", "$id", "$ref"];

/// Checks one part of a path by MongoDB's rules.
fn check_field_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::new(15998, "FieldPath field names may not be empty strings."));
    }
    if name.starts_with('$') && !REFERENCE_FIELDS.contains(&name) {
        let text = "FieldPath field names may not start with '$'. Consider using $getField or $setField.";
        return Err(Error::new(16410, text));
    }
    if name.contains('\0') {
        return Err(Error::new(16411, "FieldPath field names may not contain '\0'."));
    }
    Ok(())
}

/// Checks the name of a new variable: it begins with a lower-case letter, or is `CURRENT`.
pub(crate) fn check_new_variable(name: &str) -> Result<()> {
    if name == "CURRENT" {
        return Ok(());
    }
    if name.is_empty() {
        return Err(Error::failed_to_parse("empty variable names are not allowed"));
    }
    check_variable_name(name, |first| first.is_ascii_lowercase())
}

/// Checks the characters of a variable's name.
fn check_variable_name(name: &str, first_allowed: fn(char) -> bool) -> Result<()> {
    if !name.chars().next().is_some_and(|first| first_allowed(first) || !first.is_ascii()) {
        let text = format!("'{name}' starts with an invalid character for a user variable name");
        return Err(Error::failed_to_parse(text));
    }
    let invalid = name.chars().find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && *c != '_');
    if let Some(invalid) = invalid {
        let text = format!("'{name}' contains an invalid character for a variable name: '{invalid}'");
        return Err(Error::failed_to_parse(text));
    }
    Ok(())
}

/// The approximate size of a value in bytes.
fn value_bytes(value: Value<'_>) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Document(doc) => doc.as_bytes().len(),
        Value::Array(array) => array.as_bytes().len(),
        Value::Binary { bytes, .. } => bytes.len(),
        _ => 16,
    }
}
