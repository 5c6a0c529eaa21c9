//! The rights that an aggregation pipeline needs besides those on its own database: stages read and write other
//! collections.

use super::rights::{self, Refusal};
use crate::error::{Error, Result};
use crate::http::Request;
use diwan_access::{Action, Resource, is_system};
use diwan_store::Namespace;
use diwan_value::{Array, Doc, Value};

/// Checks all stages of a pipeline over this collection.
pub(crate) fn check(request: &Request, namespace: &Namespace, pipeline: Array<'_>) -> Result<()> {
    Check { request, namespace }.stages(pipeline)
}

struct Check<'a> {
    request: &'a Request,
    namespace: &'a Namespace,
}

impl Check<'_> {
    fn stages(&self, pipeline: Array<'_>) -> Result<()> {
        for stage in pipeline.iter().filter_map(Value::as_doc) {
            if let Some(element) = stage.iter().next() {
                self.stage(element.key_str(), element.value())?;
            }
        }
        Ok(())
    }

    fn stage(&self, name: &str, argument: Value<'_>) -> Result<()> {
        let options = argument.as_doc().unwrap_or(Doc::EMPTY);
        match name {
            "$lookup" | "$graphLookup" => {
                self.reads(options.get("from"))?;
                self.nested(options)
            }
            "$unionWith" => {
                self.reads(options.get("coll").or(Some(argument)))?;
                self.nested(options)
            }
            "$facet" => {
                let facets = options.iter().filter_map(|facet| facet.value().as_array());
                facets.into_iter().try_for_each(|stages| self.stages(stages))
            }
            "$out" => self.writes(Some(argument), &[Action::Insert, Action::Remove]),
            "$merge" => {
                let into = options.get("into").or(Some(argument));
                self.writes(into, &[Action::Insert, Action::Update])
            }
            "$collStats" => self.allow(self.own(), &[Action::CollStats]),
            "$indexStats" => self.allow(self.own(), &[Action::IndexStats]),
            "$currentOp" => self.allow(Resource::Cluster, &[Action::Inprog]),
            "$listSessions" | "$listLocalSessions" => self.allow(Resource::Cluster, &[Action::ListSessions]),
            _ => Ok(()),
        }
    }

    fn own(&self) -> Resource<'_> {
        Resource::collection(self.namespace)
    }

    fn nested(&self, options: Doc<'_>) -> Result<()> {
        options.get_array("pipeline").map_or(Ok(()), |stages| self.stages(stages))
    }

    fn reads(&self, named: Option<Value<'_>>) -> Result<()> {
        self.foreign(named).map_or(Ok(()), |(database, collection)| {
            self.allow(Resource::Collection(&database, &collection), &[Action::Find])
        })
    }

    fn writes(&self, named: Option<Value<'_>>, actions: &[Action]) -> Result<()> {
        self.foreign(named).map_or(Ok(()), |(database, collection)| {
            if is_system(&database, &collection) {
                return Err(Error::forbidden(format!("A pipeline cannot write to {database}.{collection}")));
            }
            self.allow(Resource::Collection(&database, &collection), actions)
        })
    }

    /// The collection that a stage names: a text, or `{db, coll}`. The stage's parser refuses anything else.
    fn foreign(&self, named: Option<Value<'_>>) -> Option<(String, String)> {
        match named? {
            Value::String(collection) => Some((self.namespace.database.to_string(), collection.to_owned())),
            Value::Document(named) => {
                let database = named.get_str("db").unwrap_or(&self.namespace.database);
                Some((database.to_owned(), named.get_str("coll")?.to_owned()))
            }
            _ => None,
        }
    }

    fn allow(&self, resource: Resource<'_>, actions: &[Action]) -> Result<()> {
        let (access, caller) = (&self.request.couch.access, &self.request.caller);
        match actions.iter().all(|action| access.allows(caller, *action, resource)) {
            true => Ok(()),
            false => Err(rights::refusal(caller, Refusal::Member)),
        }
    }
}
