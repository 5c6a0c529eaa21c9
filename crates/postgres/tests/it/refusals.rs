//! Refusals at opening: each names its reason and writes nothing.

use crate::support::{Schema, server};
use diwan_postgres::{OpenError, Options, PostgresEngine};

fn refusal(uri: &str) -> OpenError {
    match PostgresEngine::open(uri, &Options::default()) {
        Ok(_) => panic!("{uri} is opened"),
        Err(error) => {
            println!("{error}");
            error
        }
    }
}

/// Whether there is a schema of this name.
fn exists(schema: &Schema) -> bool {
    let sql = format!("SELECT count(*)::text FROM pg_namespace WHERE nspname = '{}'", schema.name);
    schema.admin.text(&sql) == "1"
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_server_that_cannot_be_used_is_refused() {
    let schema = Schema::new();
    let unreachable = format!("postgres://diwan@127.0.0.1:1/postgres?schema={}", schema.name);
    assert!(
        matches!(refusal(&unreachable), OpenError::Unreachable { address, .. } if address == "127.0.0.1:1")
    );
    let no_host = format!("postgres://diwan@nowhere.invalid/postgres?schema={}", schema.name);
    assert!(matches!(refusal(&no_host), OpenError::Unreachable { .. }));
    let (place, _) =
        server().rsplit_once('/').map(|(place, name)| (place.to_owned(), name.to_owned())).unwrap();
    let error = refusal(&format!("{place}/nothing"));
    assert!(matches!(&error, OpenError::NoDatabase { database, .. } if database == "nothing"), "{error}");
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_missing_store_is_refused_where_none_is_to_be_made() {
    let schema = Schema::new();
    let options = Options { create: false, ..Options::default() };
    let error = PostgresEngine::open(&schema.uri(), &options).map(drop).unwrap_err();
    assert!(matches!(&error, OpenError::NoStore { schema: name } if *name == schema.name), "{error}");
    assert!(!exists(&schema));
    drop(schema.open(&Options::default()));
    drop(PostgresEngine::open(&schema.uri(), &options).unwrap());
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_user_without_rights_is_refused() {
    let schema = Schema::new();
    let role = format!("{}_may_not", schema.name);
    schema.admin.run(&format!("CREATE ROLE {role} LOGIN"));
    let error = refusal(&schema.uri_of(&role));
    assert!(matches!(error, OpenError::NoRight { .. }), "{error}");
    assert!(error.to_string().contains(&format!("CREATE SCHEMA {} AUTHORIZATION {role}", schema.name)));
    assert!(!exists(&schema));
    // Somebody else's store.
    drop(schema.open(&Options::default()));
    assert!(matches!(refusal(&schema.uri_of(&role)), OpenError::NoRight { .. }));
    schema
        .admin
        .run(&format!("DROP SCHEMA {0} CASCADE; CREATE SCHEMA {0} AUTHORIZATION {role}", schema.name));
    drop(PostgresEngine::open(&schema.uri_of(&role), &Options::default()).unwrap());
    schema.admin.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_wrong_password_is_refused() {
    let schema = Schema::new();
    // The test server asks this user for a password.
    schema.admin.try_run("CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'right'");
    for user in ["guarded", "guarded:wrong"] {
        let error = refusal(&schema.uri_of(user));
        assert!(matches!(&error, OpenError::Refused { user, .. } if user == "guarded"), "{error}");
        assert!(!error.to_string().contains("wrong"));
    }
    assert!(!exists(&schema));
    drop(PostgresEngine::open(&schema.uri_of("guarded:right"), &Options::default()).unwrap());
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_read_only_server_is_refused() {
    let schema = Schema::new();
    let role = format!("{}_reads", schema.name);
    schema.admin.run(&format!("CREATE ROLE {role} LOGIN SUPERUSER"));
    schema.admin.run(&format!("ALTER ROLE {role} SET default_transaction_read_only = on"));
    assert!(matches!(refusal(&schema.uri_of(&role)), OpenError::ReadOnly { .. }));
    assert!(!exists(&schema));
    schema.admin.run(&format!("DROP ROLE {role}"));
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn a_foreign_schema_is_refused() {
    let schema = Schema::new();
    let is_foreign =
        || matches!(refusal(&schema.uri()), OpenError::NotDiwan { schema: named } if named == schema.name);
    schema.sql("CREATE SCHEMA {s}; CREATE TABLE {s}.customers (n integer)");
    assert!(is_foreign());
    schema.sql("CREATE TABLE {s}.layout (version integer); CREATE TABLE {s}.journal (number integer)");
    assert!(is_foreign());
    schema.sql("ALTER TABLE {s}.layout ADD product text; INSERT INTO {s}.layout VALUES (1, 'other')");
    assert!(is_foreign());
    assert_eq!(schema.admin.text("SELECT count(*)::text FROM pg_tables WHERE tablename = 'customers'"), "1");
    // One that is empty was made for us.
    schema.sql("DROP SCHEMA {s} CASCADE; CREATE SCHEMA {s}");
    drop(schema.open(&Options::default()));
}

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn another_layout_is_refused() {
    let schema = Schema::new();
    drop(schema.open(&Options::default()));
    for (version, advice) in [(4, "newer version"), (2, "made it")] {
        schema.sql(&format!("UPDATE {{s}}.layout SET version = {version}"));
        let error = refusal(&schema.uri());
        assert!(matches!(error, OpenError::OtherLayout { found, .. } if found == version));
        assert!(error.to_string().contains(advice), "{error}");
    }
    schema.sql("UPDATE {s}.layout SET version = 3");
    drop(schema.open(&Options::default()));
}
