//! Roles and privileges in replies.

use diwan_access::{Privilege, Restriction, RoleName, Roles};
use diwan_value::{Array, ArrayBuilder, Value, ValueBuf};

/// A list of `{role: …, db: …}`.
pub(crate) fn roles_array(roles: &[RoleName]) -> ValueBuf {
    let mut list = ArrayBuilder::new();
    for role in roles {
        list.push(role.to_doc());
    }
    finished(list)
}

/// A list of `{resource: …, actions: …}`.
pub(crate) fn privileges_array(privileges: &[Privilege]) -> ValueBuf {
    let mut list = ArrayBuilder::new();
    for privilege in privileges {
        list.push(privilege.to_doc());
    }
    finished(list)
}

/// The restrictions of these roles and of those they inherit: a list for each role that has some.
pub(crate) fn inherited_restrictions(known: &Roles, roles: &[RoleName]) -> ValueBuf {
    let mut list = ArrayBuilder::new();
    for restrictions in known.restrictions(roles) {
        list.push(finished(Restriction::to_array(&restrictions)));
    }
    finished(list)
}

fn finished(list: ArrayBuilder) -> ValueBuf {
    let bytes = list.finish();
    ValueBuf::new(Value::Array(Array::trusted(&bytes)))
}
