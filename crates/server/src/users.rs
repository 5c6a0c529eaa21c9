//! `diwan user`: adds, lists and removes users, and changes passwords, in a directory that a server has open or not.
//!
//! A server that has the directory open makes the change itself (see `control`). Otherwise the command opens the store.

use crate::cli::{UserArguments, UserCommand};
use crate::control::{self, Handler};
use crate::place::Place;
use diwan_access::{ADMIN, Access, Caller, HttpNames, Password, RoleName, User, UserName};
use diwan_auth::Mechanism;
use diwan_kv::Engine;
use diwan_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;

/// A change or question, as it goes to the server.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", tag = "command")]
pub enum Request {
    /// Adds a user.
    Add {
        /// The name.
        user: String,
        /// The database.
        database: String,
        /// Roles, as `role` or `role@database`.
        roles: Vec<String>,
        /// The password.
        password: String,
    },
    /// Lists the users.
    List,
    /// Changes a password.
    Passwd {
        /// The name.
        user: String,
        /// The database.
        database: String,
        /// The new password.
        password: String,
    },
    /// Removes a user.
    Remove {
        /// The name.
        user: String,
        /// The database.
        database: String,
    },
}

/// Runs a subcommand of `diwan user`.
pub fn run(arguments: UserArguments) -> Result<(), String> {
    let place = Place::of(arguments.data, arguments.store, false)?;
    let named = |name: &str, database: &str| (name.to_owned(), database.to_owned());
    let (request, anyway) = match &arguments.command {
        UserCommand::Add { name, role, database, password_file } => {
            let (user, database) = named(name, database);
            let password = password(password_file.as_deref())?;
            (Request::Add { user, database, roles: role.clone(), password }, false)
        }
        UserCommand::List => (Request::List, false),
        UserCommand::Passwd { name, database, password_file } => {
            let (user, database) = named(name, database);
            (Request::Passwd { user, database, password: password(password_file.as_deref())? }, false)
        }
        UserCommand::Remove { name, database, last } => {
            let (user, database) = named(name, database);
            (Request::Remove { user, database }, *last)
        }
    };
    let served = match place.directory() {
        Some(directory) => control::send(directory, &request)?,
        None => None,
    };
    let answer = match served {
        Some(_) if anyway => {
            return Err("stop the server first: --last works on a stopped directory only".to_owned());
        }
        Some(answer) => answer,
        None => on_place(&place, &request, anyway)?,
    };
    if !answer.is_empty() {
        println!("{answer}");
    }
    Ok(())
}

/// Opens a store that no server has open, and applies the request.
fn on_place(place: &Place, request: &Request, anyway: bool) -> Result<String, String> {
    let options = diwan_kv::Options { settle_in_background: false, ..diwan_kv::Options::default() };
    let engine = match place {
        Place::Directory(data) => open(data, &options)?,
        Place::Memory | Place::Postgres(_) => place.open(&options)?,
    };
    let store = Store::open(engine).map_err(|error| format!("cannot open the store: {error}"))?;
    if store.replica().follows() && !matches!(request, Request::List) {
        return Err("this is the directory of a follower: change users on its primary".to_owned());
    }
    let access = Access::with_defaults(store.clone()).map_err(|error| error.to_string())?;
    let answer = match request {
        Request::Remove { user, database } if anyway => access
            .drop_user_anyway(&UserName::new(user, database))
            .map(|_| format!("{user}@{database} is removed"))
            .map_err(|error| error.to_string()),
        request => apply(&access, request),
    };
    let closed = store.close().map_err(|error| format!("cannot close the store: {error}"));
    answer.and_then(|answer| closed.map(|()| answer))
}

pub fn open(data: &Path, options: &diwan_kv::Options) -> Result<Arc<dyn Engine>, String> {
    let shown = data.display();
    let engine = diwan_kv::open(data, options).map_err(|error| match error {
        diwan_kv::Error::Locked(_) => {
            format!("a server has {shown} open but does not answer: is it starting or stopping?")
        }
        error => format!("cannot open the data directory {shown}: {error}"),
    })?;
    Ok(Arc::from(engine))
}

/// Answers requests that come to the control port of a server.
pub fn handler(access: Arc<Access>) -> Handler {
    Arc::new(move |request| {
        let request: Request = serde_json::from_value(request.clone()).ok()?;
        Some(apply(&access, &request))
    })
}

/// Applies a request to the register. Returns what to print.
pub fn apply(access: &Access, request: &Request) -> Result<String, String> {
    let refused = |error: diwan_access::Error| error.to_string();
    let record = |event: &str, user: &str, database: &str| {
        let details = json!({ "name": user, "database": database, "by": "diwan user" });
        access.audit.record(event, &Caller::Everybody, None, details);
    };
    let answer = match request {
        Request::Add { user, database, roles, password } => {
            add(access, user, database, roles, password)?;
            record("createUser", user, database);
            format!("{user}@{database} is added")
        }
        Request::List => {
            let users = access.all_users().map_err(refused)?;
            let lines = users.iter().map(|user| {
                let roles: Vec<String> = user.roles.iter().map(RoleName::to_string).collect();
                format!("{}\t{}", user.name, roles.join(" "))
            });
            lines.collect::<Vec<_>>().join("\n")
        }
        Request::Passwd { user, database, password } => {
            let name = UserName::new(user, database);
            let credentials = scram(access, user, password)?;
            access
                .update_user(&name, |user| {
                    user.credentials = credentials;
                    Ok(())
                })
                .map_err(refused)?;
            record("updateUser", user, database);
            format!("the password of {name} is changed")
        }
        Request::Remove { user, database } => {
            let name = UserName::new(user, database);
            access.drop_user(&name).map_err(|error| {
                format!("{error}; or stop the server and add --last, which leaves the store as it is")
            })?;
            record("dropUser", user, database);
            format!("{name} is removed")
        }
    };
    // The answer means that the change survives a loss of power.
    let engine = access.store().engine();
    let last = engine.commit(diwan_kv::Batch::new()).map_err(|error| error.to_string())?;
    engine.wait_durable(last).map_err(|error| error.to_string())?;
    Ok(answer)
}

/// Adds a user with these roles.
pub fn add(
    access: &Access,
    user: &str,
    database: &str,
    roles: &[String],
    password: &str,
) -> Result<(), String> {
    let refused = |error: diwan_access::Error| error.to_string();
    let roles: Vec<RoleName> = roles.iter().map(|role| role_name(role, database)).collect();
    let known = access.roles().map_err(refused)?;
    for role in &roles {
        known.check(role).map_err(|error| {
            format!("{error}. A role is `read`, `readWrite`, `dbAdmin`, `dbOwner` or `root`, with its database as `read@shop`")
        })?;
    }
    let made = User {
        http_name: user.to_owned(),
        name: UserName::new(user, database),
        id: Some(diwan_store::random_uuid()),
        free_roles: roles.iter().filter(|role| role.is_free()).map(|role| role.role.clone()).collect(),
        roles,
        credentials: scram(access, user, password)?,
        custom_data: None,
        restrictions: Vec::new(),
    };
    access.create_user(made, HttpNames::Any).map_err(refused)?;
    Ok(())
}

/// Verifiers for both mechanisms of SCRAM.
fn scram(access: &Access, user: &str, password: &str) -> Result<diwan_access::Credentials, String> {
    let both = [Mechanism::ScramSha1, Mechanism::ScramSha256];
    access.scram_credentials(user, &Password::Plain(password), &both).map_err(|error| error.to_string())
}

/// A role as the command line has it: `role@database`, or a role of the user's database. `root` and the other roles of
/// the whole server are roles of `admin`.
fn role_name(text: &str, database: &str) -> RoleName {
    match text.rsplit_once('@') {
        Some((role, database)) => RoleName::new(role, database),
        None if diwan_access::builtin::is_builtin(&RoleName::new(text, database)) => {
            RoleName::new(text, database)
        }
        None if diwan_access::builtin::is_builtin(&RoleName::new(text, ADMIN)) => RoleName::new(text, ADMIN),
        None => RoleName::new(text, database),
    }
}

/// Makes the first user that the environment asks for, if there is no user yet.
pub fn first_user(access: &Access) -> Result<(), String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(user) = variable("DIWAN_ROOT_USERNAME") else { return Ok(()) };
    let given = match (variable("DIWAN_ROOT_PASSWORD"), variable("DIWAN_ROOT_PASSWORD_FILE")) {
        (Some(_), Some(_)) => {
            return Err("DIWAN_ROOT_PASSWORD and DIWAN_ROOT_PASSWORD_FILE exclude each other".to_owned());
        }
        (Some(password), None) => password,
        (None, Some(file)) => read_password(Path::new(&file))?,
        (None, None) => {
            return Err(
                "DIWAN_ROOT_USERNAME needs DIWAN_ROOT_PASSWORD or DIWAN_ROOT_PASSWORD_FILE".to_owned()
            );
        }
    };
    if !access.is_open().map_err(|error| error.to_string())? {
        return Ok(());
    }
    add(access, &user, ADMIN, &["root".to_owned()], &given)?;
    tracing::info!(%user, "the first user is made, with the role root");
    Ok(())
}

/// The password from the file, from the prompt, or from standard input if that is no terminal.
fn password(file: Option<&Path>) -> Result<String, String> {
    if let Some(file) = file {
        return read_password(file);
    }
    let unreadable = |error: std::io::Error| format!("cannot read the password: {error}");
    if !std::io::stdin().is_terminal() {
        let mut text = String::new();
        std::io::stdin().take(MAX_PASSWORD_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        return checked(text.trim_end_matches(['\r', '\n']));
    }
    let first = rpassword::prompt_password("Password: ").map_err(unreadable)?;
    if rpassword::prompt_password("Again: ").map_err(unreadable)? != first {
        return Err("the passwords differ".to_owned());
    }
    checked(&first)
}

/// No password is longer.
const MAX_PASSWORD_BYTES: u64 = 4096;

fn read_password(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read the password in {}: {error}", file.display()))?;
    checked(text.trim_end_matches(['\r', '\n']))
}

fn checked(password: &str) -> Result<String, String> {
    if password.is_empty() { Err("the password is empty".to_owned()) } else { Ok(password.to_owned()) }
}
