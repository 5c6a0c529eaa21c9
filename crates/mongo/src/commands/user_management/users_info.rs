//! `usersInfo`: describes users: one, several, those of a database, or all.

use crate::commands::shared::describe::{inherited_restrictions, privileges_array, roles_array};
use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use diwan_access::{Action, Resource, Restriction, User, UserName, scram_doc};
use diwan_auth::Mechanism;
use diwan_query::filter::{Filter, FilterEnv};
use diwan_value::{Array, ArrayBuilder, DocBuf, DocBuilder, Value};

/// What a description holds beside names and roles.
#[derive(Default)]
struct Shown {
    credentials: bool,
    privileges: bool,
    restrictions: bool,
    no_custom_data: bool,
}

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let mut shown = Shown::default();
    let mut filter = None;
    context.request.read(|field| {
        match field.key {
            "showCredentials" => shown.credentials = field.flag()?,
            "showPrivileges" => shown.privileges = field.flag()?,
            "showAuthenticationRestrictions" => shown.restrictions = field.flag()?,
            "showCustomData" => shown.no_custom_data = !field.flag()?,
            "filter" => filter = Some(field.document()?),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let filter = filter.map(|filter| Filter::parse(filter, &FilterEnv::default())).transpose()?;
    let wanted = wanted(context)?;
    let is_exact = matches!(wanted, Wanted::Named(_)) && filter.is_none();
    if (shown.privileges || shown.restrictions) && !is_exact {
        let text = "Privilege or restriction details require exact-match usersInfo queries";
        return Err(CommandError::new(crate::error::code::ILLEGAL_OPERATION, text));
    }
    let access = &context.server.access;
    let users = match wanted {
        Wanted::Named(names) => {
            for name in &names {
                let is_own = context.caller.principal().is_some_and(|caller| caller.name == *name);
                if !is_own {
                    context.require(Action::ViewUser, Resource::Database(&name.database))?;
                }
            }
            let found =
                names.iter().map(|name| access.user(name)).collect::<diwan_access::Result<Vec<_>>>()?;
            found.into_iter().flatten().collect()
        }
        Wanted::Database(database) => {
            context.require(Action::ViewUser, Resource::Database(database))?;
            let mut users = access.all_users()?;
            users.retain(|user| user.name.database == database);
            users
        }
        Wanted::All => {
            context.require(Action::ViewUser, Resource::Database(diwan_access::ADMIN))?;
            if !context.may(Action::ListDatabases, Resource::Cluster) {
                return Err(context.not_authorized());
            }
            access.all_users()?
        }
    };
    if shown.credentials {
        context.require(Action::ViewUser, Resource::Database(diwan_access::ADMIN))?;
    }
    let mut list = ArrayBuilder::new();
    for user in &users {
        let description = describe(context, user, &shown)?;
        if filter.as_ref().is_none_or(|filter| filter.matches(description.as_doc()).unwrap_or(false)) {
            list.push(description);
        }
    }
    let bytes = list.finish();
    reply.append("users", Value::Array(Array::trusted(&bytes)));
    Ok(())
}

/// Which users are described.
enum Wanted<'a> {
    Named(Vec<UserName>),
    Database(&'a str),
    All,
}

fn wanted<'a>(context: &Context<'a>) -> Result<Wanted<'a>> {
    let database = context.request.arguments.database;
    let one = |value: Value<'a>| match value {
        Value::String(name) => Some(UserName::new(name, database)),
        Value::Document(doc) => Some(UserName::new(doc.get_str("user")?, doc.get_str("db")?)),
        _ => None,
    };
    let bad = || CommandError::bad_value("User and role names must be either strings or objects");
    match context.request.target() {
        Value::Document(doc) if doc.get("forAllDBs").is_some_and(Value::is_truthy) => Ok(Wanted::All),
        Value::Array(names) => {
            Ok(Wanted::Named(names.iter().map(|name| one(name).ok_or_else(bad)).collect::<Result<_>>()?))
        }
        value @ (Value::String(_) | Value::Document(_)) => {
            Ok(Wanted::Named(vec![one(value).ok_or_else(bad)?]))
        }
        value if value.is_number() => Ok(Wanted::Database(database)),
        _ => Err(bad()),
    }
}

/// The description of a user.
fn describe(context: &Context<'_>, user: &User, shown: &Shown) -> Result<DocBuf> {
    let mut doc = DocBuilder::new();
    doc.append("_id", format!("{}.{}", user.name.database, user.name.user));
    if let Some(id) = &user.id {
        doc.append("userId", Value::Binary { subtype: 4, bytes: id });
    }
    doc.append("user", user.name.user.as_str()).append("db", user.name.database.as_str());
    if shown.credentials {
        doc.begin_document("credentials");
        if user.credentials.is_empty() {
            doc.append("external", true);
        }
        for mechanism in [Mechanism::ScramSha1, Mechanism::ScramSha256] {
            if let Some(verifier) = user.credentials.scram(mechanism) {
                doc.append(mechanism.name(), scram_doc(verifier));
            }
        }
        doc.end();
    }
    if let Some(data) = user.custom_data.as_ref().filter(|_| !shown.no_custom_data) {
        doc.append("customData", data);
    }
    doc.append("roles", roles_array(&user.roles));
    let mechanisms = match user.credentials.is_empty() {
        true => vec!["external"],
        false => user.credentials.mechanisms(),
    };
    doc.append("mechanisms", mechanisms);
    if shown.restrictions {
        let bytes = Restriction::to_array(&user.restrictions).finish();
        doc.append("authenticationRestrictions", Value::Array(Array::trusted(&bytes)));
    }
    if shown.privileges {
        let roles = context.server.access.roles()?;
        let inherited = roles.closure(&user.roles);
        doc.append("inheritedRoles", roles_array(&inherited));
        doc.append("inheritedPrivileges", privileges_array(&roles.privileges(&user.roles)));
        doc.append("inheritedAuthenticationRestrictions", inherited_restrictions(&roles, &user.roles));
    }
    Ok(doc.finish())
}
