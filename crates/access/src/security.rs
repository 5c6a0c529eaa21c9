//! `_security`: the object with which CouchDB grants rights on one database, that is on one collection.

use crate::action::Action::{self, *};
use crate::action::ActionSet;
use diwan_store::Collection;
use diwan_value::{Array, Doc, Value};

/// The collection setting that holds the object.
pub const SETTING: &str = "security";

/// What a member may do: what `readWrite` allows with documents. Collections and indexes need an administrator, as in
/// CouchDB.
pub const MEMBER: ActionSet =
    ActionSet::of(&[ChangeStream, CollStats, DbHash, Find, Insert, KillCursors, ListIndexes, Remove, Update]);

/// What an administrator of the collection may do: what `dbAdmin` allows with it, except that only an administrator of
/// the server drops or renames it, as in CouchDB; and change the object itself.
pub const ADMIN: ActionSet = MEMBER.with(ActionSet::of(&[
    BypassDocumentValidation,
    CollMod,
    Compact,
    CreateIndex,
    DropIndex,
    GrantRole,
    IndexStats,
    PlanCacheIndexFilter,
    PlanCacheRead,
    PlanCacheWrite,
    ReIndex,
    RevokeRole,
    StorageDetails,
    Validate,
]));

/// How a user stands to a collection by its `_security`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The object does not name the user.
    None,
    /// The user is a member, or the database is open to all.
    Member,
    /// The user is an administrator of the database.
    Admin,
}

impl Standing {
    /// The actions that the standing allows on the collection.
    pub fn actions(self) -> ActionSet {
        match self {
            Standing::None => ActionSet::EMPTY,
            Standing::Member => MEMBER,
            Standing::Admin => ADMIN,
        }
    }
}

/// The standing of a user with this HTTP name and these role names. A database without the object has administrators of
/// the server alone.
pub fn standing(collection: &Collection, name: Option<&str>, roles: &[String]) -> Standing {
    let Some(object) = collection.setting(SETTING) else { return Standing::None };
    match object.as_value() {
        Value::Document(object) => standing_in(object, name, roles),
        _ => Standing::None,
    }
}

/// The standing by this object.
pub fn standing_in(object: Doc<'_>, name: Option<&str>, roles: &[String]) -> Standing {
    let lists = |group: &str, list: &str| object.get_doc(group).and_then(|group| group.get_array(list));
    let named = |group: &str| {
        let has_name = name.is_some_and(|name| contains(lists(group, "names"), name));
        has_name || roles.iter().any(|role| contains(lists(group, "roles"), role))
    };
    if named("admins") {
        return Standing::Admin;
    }
    // `readers` is the older name of `members`, which CouchDB reads where there are no members.
    let members = if object.contains_key("members") { "members" } else { "readers" };
    let is_empty = |list| lists(members, list).is_none_or(|list: Array<'_>| list.is_empty());
    if (is_empty("names") && is_empty("roles")) || named(members) {
        return Standing::Member;
    }
    Standing::None
}

fn contains(list: Option<Array<'_>>, wanted: &str) -> bool {
    list.is_some_and(|list| list.iter().any(|value| value.as_str() == Some(wanted)))
}

/// Whether the object alone allows an action on the collection.
pub fn allows(collection: &Collection, name: Option<&str>, roles: &[String], action: Action) -> bool {
    ADMIN.has(action) && standing(collection, name, roles).actions().has(action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use diwan_value::doc;

    fn of(object: &diwan_value::DocBuf, name: Option<&str>, roles: &[&str]) -> Standing {
        let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
        standing_in(object.as_doc(), name, &roles)
    }

    #[test]
    fn names_and_roles_decide_the_standing() {
        let object = doc! {
            "admins": { "names": ["ada"], "roles": ["chief"] },
            "members": { "names": ["mia"], "roles": ["staff"] }
        };
        assert_eq!(of(&object, Some("ada"), &[]), Standing::Admin);
        assert_eq!(of(&object, Some("x"), &["chief"]), Standing::Admin);
        assert_eq!(of(&object, Some("mia"), &[]), Standing::Member);
        assert_eq!(of(&object, Some("x"), &["staff"]), Standing::Member);
        assert_eq!(of(&object, Some("x"), &["other"]), Standing::None);
        assert_eq!(of(&object, None, &[]), Standing::None);
    }

    #[test]
    fn database_without_members_is_open_to_all() {
        let open = doc! { "admins": { "names": ["ada"], "roles": [] } };
        assert_eq!(of(&open, Some("x"), &[]), Standing::Member);
        assert_eq!(of(&doc! {}, None, &[]), Standing::Member);
        let old = doc! { "readers": { "names": ["mia"] } };
        assert_eq!(of(&old, Some("x"), &[]), Standing::None);
        assert_eq!(of(&old, Some("mia"), &[]), Standing::Member);
    }
}
