//! `_design/_auth`, the design document that CouchDB puts into `_users`.
//!
//! Its function states the rules that a client can state, so that a replication of `_users` to a CouchDB takes them
//! along. The server itself checks the same and more in [`super::rules`].

use crate::error::Result;
use crate::server::Couch;
use diwan_store::{Base, Collection, RevisionEdit, id_key};
use diwan_value::{Value, doc};
use std::sync::Arc;

const ID: &str = "_design/_auth";

const VALIDATE: &str = r#"function (user, before, caller, security) {
  function refuse(reason) { throw { forbidden: reason }; }
  function has(list, value) { return (list || []).indexOf(value) >= 0; }
  var admins = (security && security.admins) || {};
  var isServerAdmin = has(caller.roles, '_admin');
  var isAdmin = isServerAdmin || has(admins.names, caller.name) ||
    caller.roles.some(function (role) { return has(admins.roles, role); });
  if (user._deleted === true) {
    if (!isServerAdmin && !(before && caller.name === before.name)) {
      refuse('Only admins may delete other user docs.');
    }
    return;
  }
  if (user.type !== 'user') refuse('doc.type must be user');
  if (!user.name) refuse('doc.name is required');
  if (!user.roles) refuse('doc.roles must exist');
  if (!Array.isArray(user.roles)) refuse('doc.roles must be an array');
  if (!user.roles.every(function (role) { return typeof role === 'string'; })) {
    refuse('doc.roles can only contain strings');
  }
  if (user._id !== 'org.couchdb.user:' + user.name) {
    refuse('Doc ID must be of the form org.couchdb.user:name');
  }
  if (before && before.name !== user.name) refuse('Usernames can not be changed.');
  if (!isAdmin) {
    var old = before ? (before.roles || []).slice().sort() : [];
    var now = user.roles.slice().sort();
    if (before && caller.name !== user.name) refuse('You may only update your own user document.');
    if (!before && now.length > 0) refuse('Only _admin may set roles');
    if (old.join('\n') !== now.join('\n')) refuse('Only _admin may edit roles');
  }
  if (user.roles.some(function (role) { return role.charAt(0) === '_' && role !== '_metrics'; })) {
    refuse('No system roles (starting with underscore) in users db.');
  }
  if (user.name.charAt(0) === '_') refuse('Username may not start with underscore.');
  if (user.name.indexOf(':') >= 0) refuse('Character `:` is not allowed in usernames.');
}
"#;

/// Writes the design document if there has never been one. The database is looked at once.
pub(crate) fn ensure(couch: &Couch, collection: &Arc<Collection>) -> Result<()> {
    let mut ensured = couch.auth_design.lock();
    // A follower has the design document of its primary.
    if *ensured == Some(collection.uuid()) || couch.store.replica().follows() {
        return Ok(());
    }
    collection.keep_history()?;
    let key = id_key(Value::String(ID))?;
    if collection.view().tree(&key)?.is_none() && collection.get(&key)?.is_none() {
        let body = doc! { "language": "javascript", "validate_doc_update": VALIDATE };
        let edit = RevisionEdit {
            id: Value::String(ID),
            base: Base::New,
            deleted: false,
            doc: body.as_doc(),
            attachments: Vec::new(),
        };
        collection.edit_revisions(&[edit], true, None)?;
    }
    *ensured = Some(collection.uuid());
    Ok(())
}
