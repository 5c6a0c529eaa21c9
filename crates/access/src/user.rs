//! A user, as the document in `admin._users` describes him.
//!
//! The document is CouchDB's: its `_id` is `org.couchdb.user:` and the name under which the user signs in over HTTP.
//! Fields that CouchDB does not have hold what MongoDB knows of a user:
//!
//! | field | meaning |
//! | --- | --- |
//! | `user`, `db` | the user's name and database for MongoDB's clients; without them the HTTP name and `admin` |
//! | `userId` | the user's UUID, as text |
//! | `grants` | roles that are not CouchDB's: built-in ones, and those of other databases than `admin` |
//! | `credentials` | the SCRAM verifiers; `salt` in it repeats the document's `salt` for which they were made |
//! | `customData`, `authenticationRestrictions` | as in MongoDB |
//!
//! `roles` holds CouchDB's role names. They are roles of the database `admin`, but never built-in ones: a role named
//! `root` that comes from another server gives no rights.

use crate::builtin;
use crate::error::{Error, Result};
use crate::restriction::Restriction;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use diwan_auth::{Mechanism, Pbkdf2Verifier, Prf, ScramVerifier, SimpleVerifier};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, DocBuilder, Value, doc};
use std::fmt;

/// Begins the `_id` of each user's document.
pub const ID_PREFIX: &str = "org.couchdb.user:";

/// The database of users that CouchDB's clients make, and of roles that have CouchDB's names.
pub const ADMIN: &str = "admin";

/// A user's name for MongoDB's clients: the name, and the database in which the user is defined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName {
    /// The name.
    pub user: String,
    /// The database.
    pub database: String,
}

impl UserName {
    /// The user `user` of the database.
    pub fn new(user: &str, database: &str) -> UserName {
        UserName { user: user.to_owned(), database: database.to_owned() }
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.database)
    }
}

/// A role: its name, and the database in which it is defined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleName {
    /// The name.
    pub role: String,
    /// The database.
    pub database: String,
}

impl RoleName {
    /// The role `role` of the database.
    pub fn new(role: &str, database: &str) -> RoleName {
        RoleName { role: role.to_owned(), database: database.to_owned() }
    }

    /// `{role: …, db: …}`.
    pub fn to_doc(&self) -> DocBuf {
        doc! { "role": self.role.as_str(), "db": self.database.as_str() }
    }

    /// Whether the role stands in a document's `roles`, under its name alone.
    pub fn is_free(&self) -> bool {
        self.database == ADMIN && !builtin::is_builtin(self)
    }
}

impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.role, self.database)
    }
}

/// What checks a user's password.
#[derive(Clone, Default)]
pub struct Credentials {
    /// For SCRAM-SHA-256.
    pub scram_sha_256: Option<ScramVerifier>,
    /// For SCRAM-SHA-1.
    pub scram_sha_1: Option<ScramVerifier>,
    /// CouchDB's, for plain passwords only.
    pub pbkdf2: Option<Pbkdf2Verifier>,
    /// CouchDB's older one, for plain passwords only.
    pub simple: Option<SimpleVerifier>,
}

impl Credentials {
    /// The verifier of a SCRAM mechanism.
    pub fn scram(&self, mechanism: Mechanism) -> Option<&ScramVerifier> {
        match mechanism {
            Mechanism::ScramSha1 => self.scram_sha_1.as_ref(),
            Mechanism::ScramSha256 => self.scram_sha_256.as_ref(),
        }
    }

    /// Whether there is none at all: the user can only sign in with a certificate or a token.
    pub fn is_empty(&self) -> bool {
        self.scram_sha_256.is_none()
            && self.scram_sha_1.is_none()
            && self.pbkdf2.is_none()
            && self.simple.is_none()
    }

    /// The names of the mechanisms with which the user can sign in, as `usersInfo` lists them.
    pub fn mechanisms(&self) -> Vec<&'static str> {
        let all = [Mechanism::ScramSha1, Mechanism::ScramSha256];
        all.into_iter().filter(|mechanism| self.scram(*mechanism).is_some()).map(Mechanism::name).collect()
    }

    /// Checks a plain password. This takes as long as the hash does: see [`crate::Access::check_password`].
    pub fn check(&self, user: &str, password: &str) -> bool {
        if let Some(verifier) = self.scram_sha_256.as_ref().or(self.scram_sha_1.as_ref()) {
            return verifier.check(user, password);
        }
        if let Some(verifier) = &self.pbkdf2 {
            return verifier.check(password);
        }
        self.simple.as_ref().is_some_and(|verifier| verifier.check(password))
    }

    /// Bytes that change with the password: a session or a cached check is valid for these alone.
    pub fn fingerprint(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for verifier in [&self.scram_sha_256, &self.scram_sha_1].into_iter().flatten() {
            bytes.extend_from_slice(&verifier.salt);
            bytes.extend_from_slice(&verifier.stored_key);
        }
        if let Some(verifier) = &self.pbkdf2 {
            bytes.extend_from_slice(verifier.salt.as_bytes());
            bytes.extend_from_slice(verifier.derived_key.as_bytes());
        }
        if let Some(verifier) = &self.simple {
            bytes.extend_from_slice(verifier.salt.as_bytes());
            bytes.extend_from_slice(verifier.password_sha.as_bytes());
        }
        bytes
    }
}

/// A user.
#[derive(Clone)]
pub struct User {
    /// The name over HTTP, which stands in the document's `_id`.
    pub http_name: String,
    /// The name for MongoDB's clients.
    pub name: UserName,
    /// The user's UUID. A user who is dropped and created again has another one.
    pub id: Option<[u8; 16]>,
    /// The roles that the user has directly.
    pub roles: Vec<RoleName>,
    /// CouchDB's role names, as in the document.
    pub free_roles: Vec<String>,
    /// What checks the password.
    pub credentials: Credentials,
    /// Data of applications.
    pub custom_data: Option<DocBuf>,
    /// Addresses from which the user may sign in.
    pub restrictions: Vec<Restriction>,
}

impl User {
    /// Reads a user's document. `None` if it is not one, for example a design document.
    pub fn read(doc: Doc<'_>) -> Option<User> {
        let http_name = doc.get_str("_id")?.strip_prefix(ID_PREFIX)?;
        if http_name.is_empty() {
            return None;
        }
        let database = doc.get_str("db").unwrap_or(ADMIN);
        let name = UserName::new(doc.get_str("user").unwrap_or(http_name), database);
        let free_roles: Vec<String> = doc
            .get_array("roles")
            .into_iter()
            .flat_map(|roles| roles.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let mut roles: Vec<RoleName> =
            free_roles.iter().map(|role| RoleName::new(role, ADMIN)).filter(RoleName::is_free).collect();
        for grant in doc.get_array("grants").into_iter().flat_map(Array::iter) {
            let Some(grant) = grant.as_doc() else { continue };
            if let (Some(role), Some(database)) = (grant.get_str("role"), grant.get_str("db")) {
                roles.push(RoleName::new(role, database));
            }
        }
        Some(User {
            http_name: http_name.to_owned(),
            name,
            id: doc.get_str("userId").and_then(parse_uuid),
            roles,
            free_roles,
            credentials: read_credentials(doc),
            custom_data: doc.get_doc("customData").map(|data| data.to_owned()),
            restrictions: Restriction::read_all(doc.get_array("authenticationRestrictions")),
        })
    }

    /// Replaces the roles. Names that only CouchDB's functions see, because they are also those of built-in roles, stay.
    pub fn set_roles(&mut self, roles: Vec<RoleName>) {
        self.free_roles.retain(|role| !RoleName::new(role, ADMIN).is_free());
        self.free_roles.extend(roles.iter().filter(|role| role.is_free()).map(|role| role.role.clone()));
        self.roles = roles;
    }

    /// The `_id` of the user's document.
    pub fn document_id(&self) -> String {
        format!("{ID_PREFIX}{}", self.http_name)
    }

    /// The user's document. Fields of `old` that this server does not know are kept.
    pub fn write(&self, old: Option<Doc<'_>>) -> DocBuf {
        const KNOWN: [&str; 17] = [
            "_id",
            "authenticationRestrictions",
            "credentials",
            "customData",
            "db",
            "derived_key",
            "grants",
            "iterations",
            "name",
            "password_scheme",
            "password_sha",
            "pbkdf2_prf",
            "roles",
            "salt",
            "type",
            "user",
            "userId",
        ];
        let mut doc = DocBuilder::new();
        doc.append("_id", self.document_id()).append("type", "user").append("name", self.http_name.as_str());
        let (free, grants): (Vec<_>, Vec<_>) = self.roles.iter().partition(|role| role.is_free());
        let mut names: Vec<&str> = free.iter().map(|role| role.role.as_str()).collect();
        // Names that are also those of built-in roles give no rights, but CouchDB's functions see them.
        names.extend(
            self.free_roles.iter().map(String::as_str).filter(|role| !RoleName::new(role, ADMIN).is_free()),
        );
        doc.append("roles", strings(&names));
        if self.name != UserName::new(&self.http_name, ADMIN) {
            doc.append("user", self.name.user.as_str()).append("db", self.name.database.as_str());
        }
        if let Some(id) = self.id {
            doc.append("userId", uuid_text(id));
        }
        if !grants.is_empty() {
            let mut list = ArrayBuilder::new();
            grants.iter().for_each(|role| {
                list.push(role.to_doc());
            });
            append_array(&mut doc, "grants", list);
        }
        if let Some(data) = &self.custom_data {
            doc.append("customData", data);
        }
        if !self.restrictions.is_empty() {
            append_array(&mut doc, "authenticationRestrictions", Restriction::to_array(&self.restrictions));
        }
        write_credentials(&self.credentials, &mut doc);
        for element in old.into_iter().flat_map(Doc::iter) {
            if !KNOWN.contains(&element.key_str()) {
                doc.append_element(element);
            }
        }
        doc.finish()
    }
}

fn strings(names: &[&str]) -> diwan_value::ValueBuf {
    let mut list = ArrayBuilder::new();
    for name in names {
        list.push(*name);
    }
    let bytes = list.finish();
    diwan_value::ValueBuf::new(Value::Array(Array::trusted(&bytes)))
}

fn append_array(doc: &mut DocBuilder, key: &str, list: ArrayBuilder) {
    let bytes = list.finish();
    doc.append(key, Value::Array(Array::trusted(&bytes)));
}

fn read_credentials(doc: Doc<'_>) -> Credentials {
    let mut credentials = Credentials::default();
    let salt = doc.get_str("salt");
    match doc.get_str("password_scheme") {
        Some("pbkdf2") => {
            let prf = match doc.get_str("pbkdf2_prf") {
                None => Some(Prf::Sha),
                Some(name) => Prf::from_name(name),
            };
            let iterations = doc.get("iterations").and_then(Value::as_i64_exact);
            let iterations = iterations.and_then(|count| u32::try_from(count).ok());
            if let (Some(prf), Some(iterations), Some(salt), Some(key)) =
                (prf, iterations, salt, doc.get_str("derived_key"))
            {
                credentials.pbkdf2 = Some(Pbkdf2Verifier {
                    prf,
                    iterations,
                    salt: salt.to_owned(),
                    derived_key: key.to_owned(),
                });
            }
        }
        _ => {
            if let (Some(salt), Some(sha)) = (salt, doc.get_str("password_sha")) {
                credentials.simple =
                    Some(SimpleVerifier { salt: salt.to_owned(), password_sha: sha.to_owned() });
            }
        }
    }
    let Some(scram) = doc.get_doc("credentials") else { return credentials };
    // Whoever changes the password elsewhere makes a new salt, and leaves verifiers of the old password.
    if scram.get_str("salt") == salt {
        let read = |mechanism: Mechanism| read_scram(mechanism, scram.get_doc(mechanism.name())?);
        credentials.scram_sha_1 = read(Mechanism::ScramSha1);
        credentials.scram_sha_256 = read(Mechanism::ScramSha256);
    }
    credentials
}

fn read_scram(mechanism: Mechanism, doc: Doc<'_>) -> Option<ScramVerifier> {
    let bytes = |key| BASE64.decode(doc.get_str(key)?).ok();
    Some(ScramVerifier {
        mechanism,
        iterations: u32::try_from(doc.get("iterationCount")?.as_i64_exact()?).ok()?,
        salt: bytes("salt")?,
        stored_key: bytes("storedKey")?,
        server_key: bytes("serverKey")?,
    })
}

fn write_credentials(credentials: &Credentials, doc: &mut DocBuilder) {
    let mut salt = None;
    if let Some(verifier) = &credentials.pbkdf2 {
        doc.append("password_scheme", "pbkdf2").append("pbkdf2_prf", verifier.prf.name());
        doc.append("iterations", i64::from(verifier.iterations));
        doc.append("derived_key", verifier.derived_key.as_str());
        salt = Some(verifier.salt.as_str());
    } else if let Some(verifier) = &credentials.simple {
        doc.append("password_scheme", "simple").append("password_sha", verifier.password_sha.as_str());
        salt = Some(verifier.salt.as_str());
    }
    if let Some(salt) = salt {
        doc.append("salt", salt);
    }
    let all = [&credentials.scram_sha_1, &credentials.scram_sha_256];
    if all.iter().all(|verifier| verifier.is_none()) {
        return;
    }
    doc.begin_document("credentials");
    for verifier in all.into_iter().flatten() {
        doc.append(verifier.mechanism.name(), scram_doc(verifier));
    }
    if let Some(salt) = salt {
        doc.append("salt", salt);
    }
    doc.end();
}

/// A SCRAM verifier as MongoDB shows it in a user's `credentials`.
pub fn scram_doc(verifier: &ScramVerifier) -> DocBuf {
    doc! {
        "iterationCount": i64::from(verifier.iterations),
        "salt": BASE64.encode(&verifier.salt),
        "storedKey": BASE64.encode(&verifier.stored_key),
        "serverKey": BASE64.encode(&verifier.server_key)
    }
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    if hex.len() != 32 || !hex.is_ascii() {
        return None;
    }
    let mut id = [0; 16];
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(id)
}

fn uuid_text(id: [u8; 16]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Checks the name of a new user.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::bad_value("User document needs 'user' field to be non-empty"));
    }
    if name.contains('\0') {
        return Err(Error::bad_value("Username cannot contain NULL characters"));
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(Error::bad_value(format!("a user's name has at most {MAX_NAME_BYTES} bytes")));
    }
    Ok(())
}

/// The longest name of a user or role, in bytes.
pub const MAX_NAME_BYTES: usize = 512;
