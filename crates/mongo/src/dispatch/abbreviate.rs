//! Commands and statements in short, as `currentOp` and the profiler show them.

use diwan_value::{Doc, DocBuf, DocBuilder, Value, doc};

/// The longest command, or part of a statement, that is shown in full.
const SHOWN_BYTES: usize = 1024;

/// The longest field of a longer command that is still shown.
const SHOWN_FIELD_BYTES: usize = 256;

/// The commands whose arguments are secret, in part or as a whole, and those that may bring such arguments.
const SECRET: [&str; 5] = ["authenticate", "createUser", "saslContinue", "saslStart", "updateUser"];
const MAY_BRING_SECRETS: [&str; 3] = ["hello", "isMaster", "ismaster"];

/// A command without its secrets, and without its long fields, if it is long.
pub(crate) fn abbreviated_command(body: Doc<'_>) -> DocBuf {
    let name = body.iter().next().map(|element| element.key_str()).unwrap_or_default();
    if SECRET.contains(&name) {
        let mut shown = DocBuilder::new();
        let is_shown =
            |key: &str| key == name || matches!(key, "$db" | "lsid" | "mechanism" | "conversationId");
        for element in body.iter().filter(|element| is_shown(element.key_str())) {
            shown.append_element(element);
        }
        shown.append("redacted", true);
        return shown.finish();
    }
    if MAY_BRING_SECRETS.contains(&name) && body.contains_key("speculativeAuthenticate") {
        let mut shown = DocBuilder::new();
        for element in body.iter().filter(|element| element.key_str() != "speculativeAuthenticate") {
            shown.append_element(element);
        }
        return shown.finish();
    }
    // What is explained has no secrets; a command that has some cannot be explained.
    if name == "explain" && body.get_doc("explain").is_some_and(has_secrets) {
        return doc! { "explain": Value::Null, "redacted": true };
    }
    if body.as_bytes().len() <= SHOWN_BYTES {
        return body.to_owned();
    }
    let mut short = DocBuilder::new();
    for element in body.iter().filter(|element| element.raw.bytes.len() <= SHOWN_FIELD_BYTES) {
        short.append_element(element);
    }
    short.append("$truncated", true);
    short.finish()
}

/// Whether a command that stands in another one is one of those with secret arguments.
fn has_secrets(inner: Doc<'_>) -> bool {
    let name = inner.iter().next().map(|element| element.key_str()).unwrap_or_default();
    SECRET.contains(&name)
        || MAY_BRING_SECRETS.contains(&name)
        || (name == "explain" && inner.get_doc(name).is_some_and(has_secrets))
}

/// A statement without its long parts.
pub(crate) fn abbreviated_statement(fields: &[(&str, Option<Value<'_>>)]) -> DocBuf {
    let length = |value: Value<'_>| match value {
        Value::Document(doc) => doc.as_bytes().len(),
        Value::Array(array) => array.as_bytes().len(),
        _ => 0,
    };
    let mut out = DocBuilder::new();
    let mut is_cut = false;
    for (name, value) in fields.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
        match length(value) <= SHOWN_BYTES {
            true => {
                out.append(name, value);
            }
            false => is_cut = true,
        }
    }
    if is_cut {
        out.append("$truncated", true);
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out() {
        let sign_in = doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-1", "payload": "secret" };
        let commands = [
            doc! { "createUser": "ada", "pwd": "secret", "roles": [], "customData": { "pin": "secret" } },
            doc! { "updateUser": "ada", "pwd": "secret" },
            doc! { "saslContinue": 1, "conversationId": 1, "payload": "secret" },
            doc! { "authenticate": 1, "key": "secret" },
            doc! { "hello": 1, "speculativeAuthenticate": &sign_in },
            doc! { "explain": { "createUser": "ada", "pwd": "secret" } },
            doc! { "explain": { "explain": { "hello": 1, "speculativeAuthenticate": &sign_in } } },
            sign_in,
        ];
        for command in commands {
            let shown = abbreviated_command(command.as_doc());
            assert!(!format!("{shown:?}").contains("secret"), "{shown:?}");
        }
    }
}
