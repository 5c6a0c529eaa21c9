//! Who makes an edit.

use crate::auth::rights::{self, Refusal, allows};
use crate::error::{Error, Result};
use crate::http::Request;
use crate::server::Couch;
use crate::users;
use diwan_access::{Action, Caller, SERVER_ADMIN};
use diwan_query::Interrupt;
use diwan_store::Collection;
use serde_json::json;
use std::net::IpAddr;

use super::Draft;

/// The author of an edit: what he may do, and what validation functions see of him.
#[derive(Clone)]
pub(crate) struct Author {
    /// Who he is.
    pub(crate) caller: Caller,
    pub(super) peer: Option<IpAddr>,
    /// Whether the server made the verifiers in a user's document, from a password in it.
    pub(crate) has_new_password: bool,
    /// Whether validation functions see an administrator, because the author administers the database's documents.
    pub(super) acts_as_admin: bool,
    /// Ends the wait for a transaction that has written the document. `None` if the author must not wait.
    pub(crate) waiting: Option<Interrupt>,
}

impl Author {
    /// The caller of a request.
    pub(crate) fn of(request: &Request) -> Author {
        Author {
            caller: request.caller.clone(),
            peer: Some(request.peer),
            has_new_password: false,
            acts_as_admin: false,
            waiting: request.waiting().cloned(),
        }
    }

    /// The server itself: for the definitions of indexes, whose rights the route has checked.
    pub(crate) fn server() -> Author {
        Author {
            caller: Caller::Everybody,
            peer: None,
            has_new_password: false,
            acts_as_admin: false,
            waiting: None,
        }
    }

    /// Refuses an edit for which the author has no right. The route has checked the right to write at all.
    pub(super) fn check(&self, couch: &Couch, collection: &Collection, draft: &Draft) -> Result<()> {
        if matches!(self.caller, Caller::Everybody) {
            return Ok(());
        }
        let namespace = collection.namespace();
        if draft.id.starts_with("_design/") {
            return match allows(couch, &self.caller, &[Action::CollMod], &namespace) {
                true => Ok(()),
                false => Err(rights::refusal(&self.caller, Refusal::DatabaseAdmin)),
            };
        }
        // Documents of users have rules of their own.
        if draft.deleted
            && !users::is_users(&namespace)
            && !allows(couch, &self.caller, &[Action::Remove], &namespace)
        {
            return Err(rights::refusal(&self.caller, Refusal::Member));
        }
        Ok(())
    }

    /// The context that validation functions receive: the database, the author's name and his roles.
    pub(crate) fn context(&self, database: &str) -> String {
        let mut context = user_context(&self.caller, database);
        if self.acts_as_admin && !self.caller.is_server_admin() {
            let mut roles = self.caller.http_roles();
            roles.push(SERVER_ADMIN.to_owned());
            context["roles"] = json!(roles);
        }
        context.to_string()
    }

    /// Records an edit in the audit log.
    pub(crate) fn record(&self, couch: &Couch, event: &str, id: &str, refused: Option<&Error>) {
        let details = match refused {
            None => json!({ "interface": "http", "document": id, "ok": true }),
            Some(error) => {
                json!({ "interface": "http", "document": id, "ok": false, "reason": error.reason })
            }
        };
        couch.access.audit.record(event, &self.caller, self.peer, details);
    }
}

/// The `userCtx` of functions in design documents.
pub(crate) fn user_context(caller: &Caller, database: &str) -> serde_json::Value {
    json!({ "db": database, "name": caller.http_name(), "roles": caller.http_roles() })
}
