//! Stages that list operations and sessions show a user his own, unless he asks for those of others.

use super::requests::is_set;
use diwan_access::{Caller, UserName};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, Value, ValueBuf, doc};

/// Whether `$listSessions` or `$listLocalSessions` with this argument lists the caller's sessions alone.
pub(super) fn lists_own_sessions(spec: Doc<'_>, caller: &Caller) -> bool {
    let Some(user) = caller.principal() else { return true };
    let is_own = |named: Value<'_>| named.as_doc().and_then(user_of).is_some_and(|name| name == user.name);
    !is_set(spec, "allUsers") && spec.get_array("users").is_none_or(|users| users.iter().all(is_own))
}

fn user_of(named: Doc<'_>) -> Option<UserName> {
    Some(UserName::new(named.get_str("user")?, named.get_str("db")?))
}

/// The pipeline with a filter behind a first stage that lists operations or sessions. `None` if it shows what it should
/// without one.
pub(crate) fn restricted(stages: Array<'_>, caller: &Caller) -> Option<ValueBuf> {
    let user = caller.principal()?;
    let first = stages.iter().next()?.as_doc()?.iter().next()?;
    let spec = first.value().as_doc()?;
    if is_set(spec, "allUsers") {
        return None;
    }
    let (listing, filter) = match first.key_str() {
        "$currentOp" => {
            let name = doc! { "user": user.name.user.as_str(), "db": user.name.database.as_str() };
            (doc! { "$currentOp": spec }, doc! { "effectiveUsers": name })
        }
        name @ ("$listSessions" | "$listLocalSessions") => {
            let named = spec.get_array("users").filter(|users| !users.is_empty());
            let users: Vec<String> = match named {
                None => vec![user.name.to_string()],
                Some(users) => users
                    .iter()
                    .map(|named| Some(user_of(named.as_doc()?)?.to_string()))
                    .collect::<Option<_>>()?,
            };
            let all = doc! { "allUsers": true };
            let listing = doc! { name: (if named.is_some() { all.as_doc() } else { spec }) };
            (listing, doc! { "user": { "$in": users } })
        }
        _ => return None,
    };
    Some(with_filter(&listing, &filter, stages))
}

/// The stage, the filter, and the pipeline behind its first stage.
fn with_filter(first: &DocBuf, filter: &DocBuf, stages: Array<'_>) -> ValueBuf {
    let mut all = ArrayBuilder::new();
    all.push(first).push(doc! { "$match": filter });
    for stage in stages.iter().skip(1) {
        all.push(stage);
    }
    let bytes = all.finish();
    ValueBuf::new(Value::Array(Array::trusted(&bytes)))
}
