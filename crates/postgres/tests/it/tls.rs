//! TLS with a server that has a certificate: each `sslmode`.

use crate::support::{Schema, put};
use diwan_kv::{Engine, Space};
use diwan_postgres::{Options, PostgresEngine};
use std::time::Duration;

#[test]
#[ignore = "needs a PostgreSQL: make test-postgres"]
fn modes_verify_as_much_as_they_say() {
    let schema = Schema::alone();
    let plain = &schema.admin;
    let asked = Options::default();
    let with = |query: &str| format!("{}&{query}", schema.uri());
    if plain.text("SELECT current_setting('ssl_library')").is_empty() {
        // A server that was built without TLS, as that of the wheel.
        let refused =
            PostgresEngine::open(&with("sslmode=require"), &asked).err().map(|error| error.to_string());
        assert!(refused.as_ref().is_some_and(|reason| reason.contains("TLS")), "{refused:?}");
        return drop(schema.open(&asked));
    }
    let issuer_key = rcgen::KeyPair::generate().unwrap();
    let mut issuer = rcgen::CertificateParams::new(vec![]).unwrap();
    issuer.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer_certificate = issuer.self_signed(&issuer_key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let issuer = rcgen::Issuer::new(issuer, issuer_key);
    let certificate = rcgen::CertificateParams::new(vec!["elsewhere.test".into()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let roots = directory.path().join("roots.pem");
    std::fs::write(&roots, issuer_certificate.pem()).unwrap();
    // The server writes its files itself, which its own user may read.
    for (file, text) in [("test.crt", certificate.pem()), ("test.key", key.serialize_pem())] {
        plain.run(&format!(
            "COPY (SELECT unnest(string_to_array('{}', E'\\n'))) TO PROGRAM 'umask 077; cat > {file}'",
            text.trim()
        ));
    }
    for set in ["ssl_cert_file = 'test.crt'", "ssl_key_file = 'test.key'", "ssl = on"] {
        plain.run(&format!("ALTER SYSTEM SET {set}"));
    }
    plain.run("SELECT pg_reload_conf()");
    std::thread::sleep(Duration::from_millis(500));
    let trusted = format!("sslrootcert={}", roots.display());
    for query in ["sslmode=require", &format!("sslmode=verify-ca&{trusted}")] {
        let engine = PostgresEngine::open(&with(query), &asked).unwrap();
        put(&engine, Space::Meta, b"k", b"v").unwrap();
        let encrypted = plain.text(
            "SELECT bool_and(s.ssl)::text FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'diwan'",
        );
        assert_eq!(encrypted, "true", "{query}");
        engine.close().unwrap();
    }
    for (query, reason) in [
        (format!("sslmode=verify-full&{trusted}"), "elsewhere.test"),
        ("sslmode=verify-ca".to_owned(), "UnknownIssuer"),
    ] {
        let error = PostgresEngine::open(&with(&query), &asked)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(error.contains("TLS") && error.contains(reason), "{query}: {error}");
    }
    plain.run("ALTER SYSTEM RESET ssl");
    plain.run("SELECT pg_reload_conf()");
    drop(schema.open(&asked));
}
