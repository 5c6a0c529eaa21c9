//! `collMod`: changes the options of a collection, of a view, or of one index.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::fields::Field;
use diwan_store::{Error, Index, IndexSpec, Namespace, Schema, same_pattern};
use diwan_value::{Doc, DocBuilder, Value};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = request.namespace()?;
    let mut changes = DocBuilder::new();
    let mut index = None;
    request.read(|field| {
        match field.key {
            "index" => index = Some(field.document()?),
            "validator"
            | "validationLevel"
            | "validationAction"
            | "viewOn"
            | "pipeline"
            | "changeStreamPreAndPostImages" => {
                // A null changes nothing.
                if !field.value().is_nullish() {
                    changes.append(field.key, field.value());
                }
            }
            "cappedSize" => {
                changes.append("size", field.integer()?);
            }
            "cappedMax" => {
                changes.append("max", field.integer()?);
            }
            "dryRun" if !field.flag()? => {}
            "dryRun" | "expireAfterSeconds" | "timeseries" => {
                return Err(CommandError::not_implemented(format_args!("collMod.{}", field.key)));
            }
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let index = index.map(IndexChange::parse).transpose()?;
    let changes = changes.finish();
    let edit = index.as_ref().map(|index| |schema: &mut Schema| index.apply(schema, &namespace, reply));
    context.store.modify(&namespace, changes.as_doc(), edit)?;
    context.fence()
}

/// The argument `index`: a change of one index.
struct IndexChange<'a> {
    name: Option<&'a str>,
    key: Option<Doc<'a>>,
    hidden: Option<bool>,
    expire: Option<i64>,
}

impl<'a> IndexChange<'a> {
    fn parse(argument: Doc<'a>) -> Result<IndexChange<'a>> {
        let (mut name, mut key, mut hidden, mut expire) = (None, None, None, None);
        Field::read_document("collMod.index", argument, |field| {
            match field.key {
                "name" => name = Some(field.string()?),
                "keyPattern" => key = Some(field.document()?),
                "hidden" => hidden = Some(field.flag()?),
                "expireAfterSeconds" => expire = Some(field.integer()?),
                "unique" | "prepareUnique" => {
                    return Err(CommandError::not_implemented(format_args!("collMod.index.{}", field.key)));
                }
                _ => return Err(field.unknown()),
            }
            Ok(())
        })?;
        if name.is_some() == key.is_some() {
            let text = if name.is_some() {
                "Cannot specify both key pattern and name."
            } else {
                "Must specify either index name or key pattern."
            };
            return Err(CommandError::new(code::INVALID_OPTIONS, text));
        }
        Ok(IndexChange { name, key, hidden, expire })
    }

    /// Changes the index in `schema`, and appends its old and new options to the reply.
    fn apply(
        &self,
        schema: &mut Schema,
        namespace: &Namespace,
        reply: &mut DocBuilder,
    ) -> diwan_store::Result<()> {
        let is_meant = |index: &Index| match (self.name, self.key) {
            (Some(name), _) => index.spec.name == name,
            (None, Some(key)) => same_pattern(index.spec.key.as_doc(), key),
            (None, None) => false,
        };
        let modified = |spec: &IndexSpec| {
            if self.hidden == Some(true) && spec.is_id_index() {
                return Err(Error::refused(code::BAD_VALUE, "can't hide _id index"));
            }
            spec.modified(self.hidden, self.expire, None)
        };
        let old = schema.modify_index(is_meant, modified)?.ok_or_else(|| {
            let name = self.name.unwrap_or("by key pattern");
            let text = format!("cannot find index {name} for ns {namespace}");
            Error::refused(diwan_query::code::INDEX_NOT_FOUND, text)
        })?;
        if let Some(hidden) = self.hidden {
            reply.append("hidden_old", old.spec.hidden).append("hidden_new", hidden);
        }
        if let Some(seconds) = self.expire {
            if let Some(old) = old.spec.expire_after_seconds {
                reply.append("expireAfterSeconds_old", Value::Int64(old));
            }
            reply.append("expireAfterSeconds_new", Value::Int64(seconds));
        }
        Ok(())
    }
}
