//! The register over a store in memory.

use crate::{
    Access, Action, Caller, HttpNames, Password, Pattern, Privilege, Resource, Role, RoleName, Settings,
    User, UserName, codes, security,
};
use diwan_auth::Mechanism;
use diwan_kv::MemoryEngine;
use diwan_store::{Edit, Namespace, Store, WriteOptions, id_key};
use diwan_value::{Value, doc};
use std::collections::BTreeMap;
use std::sync::Arc;

fn register() -> Arc<Access> {
    let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
    // The tests make many verifiers, which need not be expensive.
    let access = Access::with_defaults(store).unwrap();
    access.settings.set("chttpd_auth", "iterations", Some("10")).unwrap();
    access.settings.set("mongodb", "scramSHA256IterationCount", Some("5000")).unwrap();
    access.settings.set("mongodb", "scramIterationCount", Some("5000")).unwrap();
    access
}

fn user(access: &Access, name: &str, database: &str, roles: &[RoleName]) -> User {
    let password = Password::Plain("secret");
    User {
        http_name: String::new(),
        name: UserName::new(name, database),
        id: Some(diwan_store::random_uuid()),
        roles: roles.to_vec(),
        free_roles: Vec::new(),
        credentials: access.scram_credentials(name, &password, &[Mechanism::ScramSha256]).unwrap(),
        custom_data: None,
        restrictions: Vec::new(),
    }
}

fn root() -> RoleName {
    RoleName::new("root", "admin")
}

/// A register with the administrator `ada`.
fn administered() -> Arc<Access> {
    let access = register();
    access.create_user(user(&access, "ada", "admin", &[root()]), HttpNames::Any).unwrap();
    access
}

fn sign_in(access: &Access, name: &str, database: &str) -> Caller {
    let user = access.user(&UserName::new(name, database)).unwrap().unwrap();
    Caller::User(access.principal(&user).unwrap())
}

fn code(outcome: crate::Result<impl Sized>) -> Option<i32> {
    outcome.err().unwrap().code()
}

const ORDERS: Resource<'static> = Resource::Collection("shop", "orders");

#[test]
fn store_without_users_is_open_and_the_first_user_closes_it() {
    let access = register();
    assert!(matches!(access.renew(&Caller::Anonymous).unwrap(), Caller::Everybody));
    access.create_user(user(&access, "ada", "admin", &[root()]), HttpNames::Any).unwrap();
    assert!(matches!(access.renew(&Caller::Everybody).unwrap(), Caller::Anonymous));
    assert!(!access.allows(&Caller::Anonymous, Action::Find, ORDERS));
}

#[test]
fn first_user_must_administer_and_the_last_administrator_stays() {
    let access = register();
    let reader = RoleName::new("read", "shop");
    let first =
        access.create_user(user(&access, "bob", "admin", std::slice::from_ref(&reader)), HttpNames::Any);
    assert_eq!(code(first), Some(codes::UNAUTHORIZED));
    access.create_user(user(&access, "ada", "admin", &[root()]), HttpNames::Any).unwrap();
    access.create_user(user(&access, "bob", "shop", &[reader]), HttpNames::Any).unwrap();
    let ada = UserName::new("ada", "admin");
    assert_eq!(code(access.drop_user(&ada)), Some(codes::UNAUTHORIZED));
    assert_eq!(code(access.drop_users_of("admin")), Some(codes::UNAUTHORIZED));
    let demoted = access.update_user(&ada, |user| {
        user.roles.clear();
        Ok(())
    });
    assert_eq!(code(demoted), Some(codes::UNAUTHORIZED));
    assert_eq!(code(access.check_edit("ada", None)), Some(codes::UNAUTHORIZED));
    access.create_user(user(&access, "eve", "shop", &[root()]), HttpNames::Any).unwrap();
    access.drop_user(&ada).unwrap();
}

#[test]
fn role_that_makes_the_last_administrator_stays() {
    let access = administered();
    let role = RoleName::new("chief", "admin");
    let privileges = vec![Privilege::new(Pattern::database("admin"), Action::GrantRole.into())];
    let made = Role { name: role.clone(), roles: Vec::new(), privileges, restrictions: Vec::new() };
    access.create_role(made).unwrap();
    access.create_user(user(&access, "bob", "admin", std::slice::from_ref(&role)), HttpNames::Any).unwrap();
    access.drop_user(&UserName::new("ada", "admin")).unwrap();
    assert_eq!(code(access.drop_role(&role)), Some(codes::UNAUTHORIZED));
    let emptied = access.update_role(&role, |role| {
        role.privileges.clear();
        Ok(())
    });
    assert_eq!(code(emptied), Some(codes::UNAUTHORIZED));
}

#[test]
fn users_of_one_name_in_two_databases_have_two_http_names() {
    let access = administered();
    let reader = RoleName::new("read", "shop");
    access.create_user(user(&access, "bob", "shop", std::slice::from_ref(&reader)), HttpNames::Any).unwrap();
    access.create_user(user(&access, "bob", "stock", std::slice::from_ref(&reader)), HttpNames::Any).unwrap();
    assert_eq!(access.http_user("bob").unwrap().unwrap().name, UserName::new("bob", "shop"));
    assert_eq!(access.http_user("bob@stock").unwrap().unwrap().name, UserName::new("bob", "stock"));
    assert_eq!(access.user(&UserName::new("bob", "stock")).unwrap().unwrap().http_name, "bob@stock");
    assert!(access.user(&UserName::new("bob", "admin")).unwrap().is_none());
    let again = access.create_user(user(&access, "bob", "shop", &[reader]), HttpNames::Any);
    assert_eq!(code(again), Some(codes::USER_EXISTS));
}

#[test]
fn change_of_rights_holds_for_callers_that_have_signed_in() {
    let access = administered();
    let bob = UserName::new("bob", "shop");
    access
        .create_user(user(&access, "bob", "shop", &[RoleName::new("read", "shop")]), HttpNames::Any)
        .unwrap();
    let caller = sign_in(&access, "bob", "shop");
    assert!(access.allows(&caller, Action::Find, ORDERS) && !access.allows(&caller, Action::Insert, ORDERS));
    access
        .update_user(&bob, |user| {
            user.roles = vec![RoleName::new("readWrite", "shop")];
            Ok(())
        })
        .unwrap();
    let caller = access.renew(&caller).unwrap();
    assert!(access.allows(&caller, Action::Insert, ORDERS));
    access.drop_user(&bob).unwrap();
    assert!(matches!(access.renew(&caller).unwrap(), Caller::Anonymous));
    access.create_user(user(&access, "bob", "shop", &[root()]), HttpNames::Any).unwrap();
    assert!(matches!(access.renew(&caller).unwrap(), Caller::Anonymous), "another user of the same name");
}

#[test]
fn security_object_gives_rights_on_its_collection_alone() {
    let access = administered();
    access.create_user(user(&access, "mia", "admin", &[]), HttpNames::Any).unwrap();
    let orders = Namespace::new("shop", "orders").unwrap();
    let collection = access.store().collection_or_create(&orders).unwrap();
    let caller = sign_in(&access, "mia", "admin");
    assert!(!access.allows(&caller, Action::Find, ORDERS));
    let object = doc! { "members": { "names": ["mia"] }, "admins": { "names": ["adam"] } };
    collection.set_setting(security::SETTING, Some(Value::Document(object.as_doc()))).unwrap();
    assert!(access.allows(&caller, Action::Update, ORDERS));
    for refused in [Action::CollMod, Action::DropCollection, Action::CreateIndex] {
        assert!(!access.allows(&caller, refused, ORDERS), "{refused}");
    }
    assert!(!access.allows(&caller, Action::Find, Resource::Collection("shop", "other")));
    assert!(!access.allows(&caller, Action::ListCollections, Resource::Database("shop")));
}

#[test]
fn security_object_never_opens_the_register_of_users() {
    let access = administered();
    access.create_user(user(&access, "mia", "admin", &[]), HttpNames::Any).unwrap();
    let users = access.store().collection_or_create(access.users_namespace()).unwrap();
    let open = doc! { "members": { "names": [] } };
    users.set_setting(security::SETTING, Some(Value::Document(open.as_doc()))).unwrap();
    let caller = sign_in(&access, "mia", "admin");
    assert!(!access.allows(&caller, Action::Find, Resource::collection(access.users_namespace())));
}

/// Stores a document in `_users` as a replicator does.
fn put(access: &Access, document: &diwan_value::DocBuf) {
    let users = access.store().collection_or_create(access.users_namespace()).unwrap();
    let id = id_key(document.as_doc().get("_id").unwrap()).unwrap();
    users.edit(&[id], WriteOptions::default(), |_, _| Ok(Edit::Put(document.clone()))).unwrap();
}

#[test]
fn document_of_couchdb_is_a_user_whose_password_gets_scram_verifiers_later() {
    let access = administered();
    let made = diwan_auth::Pbkdf2Verifier::make("geheim", diwan_auth::Prf::Sha, 10).unwrap();
    put(
        &access,
        &doc! {
            "_id": "org.couchdb.user:joe", "type": "user", "name": "joe", "roles": ["editor", "root"],
            "password_scheme": "pbkdf2", "iterations": 10, "salt": made.salt.as_str(),
            "derived_key": made.derived_key.as_str(), "colour": "blue"
        },
    );
    let joe = access.http_user("joe").unwrap().unwrap();
    assert_eq!(joe.name, UserName::new("joe", "admin"));
    assert_eq!(
        joe.roles,
        [RoleName::new("editor", "admin")],
        "a role named root from elsewhere gives no rights"
    );
    assert!(!access.principal(&joe).unwrap().is_server_admin());
    assert!(
        access.check_password(&joe, "geheim").unwrap() && !access.check_password(&joe, "Geheim").unwrap()
    );
    assert!(joe.credentials.mechanisms().is_empty());
    access.upgrade_credentials(&joe, "geheim").unwrap();
    let joe = access.http_user("joe").unwrap().unwrap();
    assert_eq!(joe.credentials.mechanisms(), ["SCRAM-SHA-1", "SCRAM-SHA-256"]);
    assert_eq!(joe.free_roles, ["editor", "root"]);
    assert!(access.check_password(&joe, "geheim").unwrap());
}

#[test]
fn scram_verifiers_of_an_older_password_are_ignored() {
    let access = administered();
    access.create_user(user(&access, "joe", "admin", &[]), HttpNames::Any).unwrap();
    access
        .update_user(&UserName::new("joe", "admin"), |joe| {
            joe.credentials = access.http_credentials("joe", "first").unwrap();
            Ok(())
        })
        .unwrap();
    let joe = access.http_user("joe").unwrap().unwrap();
    assert_eq!(joe.credentials.mechanisms().len(), 2);
    // A CouchDB that does not know `credentials` changes the password, and the document comes back.
    let second = diwan_auth::Pbkdf2Verifier::make("second", diwan_auth::Prf::Sha, 10).unwrap();
    let mut changed = joe.write(None).into_builder();
    for field in ["salt", "derived_key"] {
        assert!(joe.write(None).as_doc().contains_key(field));
    }
    changed = {
        let old = changed.finish();
        let mut doc = diwan_value::DocBuilder::new();
        for element in old.as_doc().iter() {
            match element.key_str() {
                "salt" => doc.append("salt", second.salt.as_str()),
                "derived_key" => doc.append("derived_key", second.derived_key.as_str()),
                "pbkdf2_prf" => doc.append("pbkdf2_prf", "sha"),
                "iterations" => doc.append("iterations", 10),
                _ => doc.append_element(element),
            };
        }
        doc
    };
    put(&access, &changed.finish());
    let joe = access.http_user("joe").unwrap().unwrap();
    assert!(joe.credentials.mechanisms().is_empty());
    assert!(access.check_password(&joe, "second").unwrap() && !access.check_password(&joe, "first").unwrap());
}

#[test]
fn dropped_role_disappears_from_users_and_roles() {
    let access = administered();
    let [inner, outer] = ["inner", "outer"].map(|name| RoleName::new(name, "admin"));
    let privileges = vec![Privilege::new(Pattern::database("shop"), Action::Find.into())];
    let role = Role { name: inner.clone(), roles: Vec::new(), privileges, restrictions: Vec::new() };
    access.create_role(role).unwrap();
    let roles = vec![inner.clone()];
    let role = Role { name: outer.clone(), roles, privileges: Vec::new(), restrictions: Vec::new() };
    access.create_role(role).unwrap();
    access.create_user(user(&access, "bob", "admin", std::slice::from_ref(&outer)), HttpNames::Any).unwrap();
    let caller = sign_in(&access, "bob", "admin");
    assert!(access.allows(&caller, Action::Find, ORDERS));
    access.drop_role(&inner).unwrap();
    let caller = access.renew(&caller).unwrap();
    assert!(!access.allows(&caller, Action::Find, ORDERS));
    assert!(access.roles().unwrap().get(&outer).unwrap().roles.is_empty());
    access.drop_role(&outer).unwrap();
    assert!(access.user(&UserName::new("bob", "admin")).unwrap().unwrap().roles.is_empty());
}

#[test]
fn settings_are_kept_and_fixed_ones_are_refused() {
    let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
    let fixed = crate::Fixed { value: "true".to_owned(), source: "--cors-origin".to_owned() };
    let fixed = BTreeMap::from([(("chttpd".to_owned(), "enable_cors".to_owned()), fixed)]);
    let settings = Settings::open(store.clone(), Default::default(), fixed).unwrap();
    assert!(settings.flag("chttpd", "enable_cors", false));
    let refused = settings.set("chttpd", "enable_cors", Some("false")).unwrap_err().to_string();
    assert!(refused.contains("--cors-origin"), "{refused}");
    assert_eq!(settings.set("a/b", "c", Some("1")).unwrap().0, None);
    assert_eq!(settings.set("a/b", "c", Some("2")).unwrap().0.as_deref(), Some("1"));
    let secret = settings.secret("chttpd_auth", "secret").unwrap();
    let again = Settings::open(store, Default::default(), BTreeMap::new()).unwrap();
    assert_eq!(again.get("a/b", "c").as_deref(), Some("2"));
    assert_eq!(again.secret("chttpd_auth", "secret").unwrap(), secret);
    assert_eq!(again.set("a/b", "c", None).unwrap().0.as_deref(), Some("2"));
    assert_eq!(settings.get("a/b", "c"), None);
}
