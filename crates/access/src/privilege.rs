//! Privileges: which actions are allowed on which resources.

use crate::action::{Action, ActionSet};
use crate::error::{Error, Result};
use crate::resource::{Pattern, Resource};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, DocBuilder, Value, doc};

/// Actions that are allowed on the resources of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// The resources.
    pub pattern: Pattern,
    /// The actions.
    pub actions: ActionSet,
}

impl Privilege {
    /// These actions on these resources.
    pub fn new(pattern: Pattern, actions: ActionSet) -> Privilege {
        Privilege { pattern, actions }
    }

    /// Whether it allows the action on the resource.
    pub fn allows(&self, action: Action, resource: Resource<'_>) -> bool {
        (self.actions.has(action) || self.actions.has(Action::AnyAction)) && self.pattern.covers(resource)
    }

    /// Reads a privilege of a role command: `{resource: {…}, actions: […]}`.
    pub fn parse(doc: Doc<'_>) -> Result<Privilege> {
        let bad = |text: String| Error::bad_value(text);
        let resource =
            doc.get_doc("resource").ok_or_else(|| bad("privilege has no field \"resource\"".to_owned()))?;
        let actions =
            doc.get_array("actions").ok_or_else(|| bad("privilege has no field \"actions\"".to_owned()))?;
        let mut set = ActionSet::EMPTY;
        let mut unknown = Vec::new();
        for action in actions.iter() {
            let name = action.as_str().ok_or_else(|| bad("actions of a privilege are strings".to_owned()))?;
            match Action::from_name(name) {
                Some(action) => set = set | action.into(),
                None => unknown.push(name),
            }
        }
        if !unknown.is_empty() {
            return Err(Error::failed_to_parse(format!(
                "Unrecognized action privilege strings: {}",
                unknown.join(",")
            )));
        }
        Ok(Privilege { pattern: parse_resource(resource)?, actions: set })
    }

    /// The document of the privilege, as role commands have it.
    pub fn to_doc(&self) -> DocBuf {
        let mut actions = ArrayBuilder::new();
        for action in self.actions.iter() {
            actions.push(action.name());
        }
        let actions = actions.finish();
        let mut doc = DocBuilder::new();
        doc.append("resource", resource_doc(&self.pattern));
        doc.append("actions", Value::Array(Array::trusted(&actions)));
        doc.finish()
    }
}

fn parse_resource(resource: Doc<'_>) -> Result<Pattern> {
    let is_set = |key| resource.get(key).and_then(Value::as_bool) == Some(true);
    let invalid = || {
        Error::bad_value(
            "resource must be {cluster: true}, {anyResource: true}, or have both the fields db and collection",
        )
    };
    match resource.count() {
        1 if is_set("cluster") => Ok(Pattern::Cluster),
        1 if is_set("anyResource") => Ok(Pattern::Any),
        2 => {
            let name = |key| {
                let name = resource.get_str(key).ok_or_else(invalid)?;
                Ok::<_, Error>((!name.is_empty()).then(|| name.to_owned()))
            };
            Ok(Pattern::Names { database: name("db")?, collection: name("collection")? })
        }
        _ => Err(invalid()),
    }
}

fn resource_doc(pattern: &Pattern) -> DocBuf {
    match pattern {
        Pattern::Cluster => doc! { "cluster": true },
        Pattern::Any => doc! { "anyResource": true },
        Pattern::Names { database, collection } => doc! {
            "db": database.as_deref().unwrap_or_default(),
            "collection": collection.as_deref().unwrap_or_default()
        },
    }
}

/// Adds privileges to a list, so that each pattern stands in it once.
pub fn merge(list: &mut Vec<Privilege>, more: impl IntoIterator<Item = Privilege>) {
    for privilege in more {
        match list.iter_mut().find(|known| known.pattern == privilege.pattern) {
            Some(known) => known.actions = known.actions | privilege.actions,
            None => list.push(privilege),
        }
    }
}

/// Whether a list of privileges includes all of another one: whoever has the first may grant the second.
pub fn includes(list: &[Privilege], other: &Privilege) -> bool {
    let mut left = other.actions;
    for privilege in list.iter().filter(|privilege| privilege.pattern.includes(&other.pattern)) {
        if privilege.actions.has(Action::AnyAction) {
            return true;
        }
        left = left.without(privilege.actions);
    }
    left.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privilege_is_read_as_it_is_written() {
        for pattern in [
            Pattern::Cluster,
            Pattern::Any,
            Pattern::NORMAL,
            Pattern::database("shop"),
            Pattern::collection("shop", "orders"),
            Pattern::everywhere("orders"),
        ] {
            let privilege = Privilege::new(pattern, ActionSet::of(&[Action::Find, Action::Update]));
            assert_eq!(Privilege::parse(privilege.to_doc().as_doc()).unwrap(), privilege);
        }
    }

    #[test]
    fn unknown_actions_and_odd_resources_are_refused() {
        let unknown = doc! { "resource": { "db": "a", "collection": "" }, "actions": ["find", "fly"] };
        let error = Privilege::parse(unknown.as_doc()).unwrap_err();
        assert_eq!(error.to_string(), "Unrecognized action privilege strings: fly");
        for resource in
            [doc! {}, doc! { "cluster": false }, doc! { "db": "a" }, doc! { "db": 1, "collection": "" }]
        {
            let privilege = doc! { "resource": resource, "actions": ["find"] };
            assert!(Privilege::parse(privilege.as_doc()).is_err());
        }
    }

    #[test]
    fn several_privileges_together_include_another_one() {
        let list = [
            Privilege::new(Pattern::database("shop"), Action::Find.into()),
            Privilege::new(Pattern::NORMAL, Action::Insert.into()),
        ];
        let both = ActionSet::of(&[Action::Find, Action::Insert]);
        assert!(includes(&list, &Privilege::new(Pattern::collection("shop", "orders"), both)));
        assert!(!includes(&list, &Privilege::new(Pattern::collection("stock", "orders"), both)));
    }
}
