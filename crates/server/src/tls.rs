//! TLS: reads the certificates, reads them again when they change, and makes a certificate to try.

use crate::cli::CertificateArguments;
use crate::settings::{ClientCertificates, TlsFiles};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How often the files are checked for a change.
const CHECK: Duration = Duration::from_secs(10);

/// The protocols that a client can choose on each port.
#[derive(Clone, Copy)]
pub enum Port {
    /// MongoDB's, which has no name.
    Mongo,
    /// HTTP/1.1 and HTTP/2.
    Http,
}

/// The TLS configuration of a port, from the files.
pub fn load(files: &TlsFiles, port: Port) -> Result<Arc<ServerConfig>, String> {
    let unreadable = |path: &Path, error: &dyn std::fmt::Display| {
        format!("cannot read the certificates in {}: {error}", path.display())
    };
    let read = |path: &Path| {
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(path, &error))?;
        let all: Result<Vec<_>, _> = certificates.collect();
        let all = all.map_err(|error| unreadable(path, &error))?;
        if all.is_empty() { Err(unreadable(path, &"there is none")) } else { Ok(all) }
    };
    let chain = read(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| format!("cannot read the private key in {}: {error}", files.key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &files.authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in read(path)? {
                roots.add(authority).map_err(|error| unreadable(path, &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = match files.clients {
                ClientCertificates::Required => verifier,
                ClientCertificates::Allowed => verifier.allow_unauthenticated(),
            };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| error.to_string())?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        format!(
            "the key in {} does not fit the certificate in {}: {error}",
            files.key.display(),
            files.certificate.display()
        )
    })?;
    if matches!(port, Port::Http) {
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    }
    Ok(Arc::new(config))
}

/// The configurations of both ports, as of now and later.
pub struct Followed {
    /// MongoDB's port.
    pub mongo: watch::Receiver<Arc<ServerConfig>>,
    /// The HTTP port.
    pub http: watch::Receiver<Arc<ServerConfig>>,
}

/// The configurations of both ports. They follow the files: at SIGHUP, and when a file has changed. Files that cannot be
/// read leave the old configuration in force.
pub fn follow(files: TlsFiles) -> Result<Followed, String> {
    let (mongo, mongo_configs) = watch::channel(load(&files, Port::Mongo)?);
    let (http, http_configs) = watch::channel(load(&files, Port::Http)?);
    let mut hangup = signal(SignalKind::hangup()).map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        let mut seen = stamps(&files);
        loop {
            tokio::select! {
                _ = hangup.recv() => {}
                () = tokio::time::sleep(CHECK) => {
                    if stamps(&files) == seen {
                        continue;
                    }
                }
            }
            seen = stamps(&files);
            match (load(&files, Port::Mongo), load(&files, Port::Http)) {
                (Ok(for_mongo), Ok(for_http)) => {
                    // Nobody receives after the listeners have closed.
                    let _ = (mongo.send(for_mongo), http.send(for_http));
                    tracing::info!(certificate = %files.certificate.display(), "certificates read again");
                }
                (Err(error), _) | (_, Err(error)) => {
                    tracing::error!(%error, "the old certificates stay in use");
                }
            }
        }
    });
    Ok(Followed { mongo: mongo_configs, http: http_configs })
}

/// When each file was changed last.
fn stamps(files: &TlsFiles) -> Vec<Option<SystemTime>> {
    let paths = [Some(&files.certificate), Some(&files.key), files.authorities.as_ref()];
    paths.into_iter().flatten().map(|path| fs::metadata(path).and_then(|file| file.modified()).ok()).collect()
}

/// `diwan certificate --self-signed`: makes a key and a certificate for these hosts.
pub fn make_certificate(arguments: &CertificateArguments) -> Result<(), String> {
    if !arguments.self_signed {
        return Err(
            "`diwan certificate` makes self-signed certificates only: add --self-signed. An authority that \
                    your clients trust signs other ones"
                .to_owned(),
        );
    }
    let hosts = if arguments.host.is_empty() { vec!["localhost".to_owned()] } else { arguments.host.clone() };
    let failed = |error: rcgen::Error| format!("cannot make the certificate: {error}");
    let mut parameters = rcgen::CertificateParams::new(hosts.clone()).map_err(failed)?;
    parameters.distinguished_name.push(rcgen::DnType::CommonName, hosts[0].as_str());
    let now = SystemTime::now();
    parameters.not_before = (now - Duration::from_secs(3600)).into();
    parameters.not_after = (now + Duration::from_secs(u64::from(arguments.days) * 86_400)).into();
    parameters.is_ca = rcgen::IsCa::ExplicitNoCa;
    let key = rcgen::KeyPair::generate().map_err(failed)?;
    let certificate = parameters.self_signed(&key).map_err(failed)?;
    write_new(&arguments.key, &key.serialize_pem(), 0o600)?;
    write_new(&arguments.certificate, &certificate.pem(), 0o644)?;
    println!(
        "{} and {} for {}, valid for {} days. Clients trust it with tlsCAFile={} or curl --cacert {}",
        arguments.certificate.display(),
        arguments.key.display(),
        hosts.join(", "),
        arguments.days,
        arguments.certificate.display(),
        arguments.certificate.display()
    );
    Ok(())
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), String> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
