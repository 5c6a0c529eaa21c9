//! Which certificates of remote servers the replicator trusts.

use crate::replicator::failure::Failure;
use crate::server::Couch;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// The settings about certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::replicator) struct Trust {
    /// A file with further certificates of authorities.
    file: Option<String>,
    /// When that file last changed.
    changed: Option<SystemTime>,
    /// Whether a server's certificate is checked at all.
    verifies: bool,
}

impl Trust {
    /// Reads the settings.
    pub(in crate::replicator) fn of(couch: &Couch) -> Trust {
        let file =
            couch.setting("replicator", "ssl_trusted_certificates_file").filter(|file| !file.is_empty());
        let changed = file.as_ref().and_then(|file| std::fs::metadata(file).ok()?.modified().ok());
        Trust { file, changed, verifies: couch.setting_flag("replicator", "verify_ssl_certificates") }
    }

    /// Trust in the authorities of this file, too.
    pub(in crate::replicator) fn with(file: Option<&Path>) -> Trust {
        let changed = file.and_then(|file| std::fs::metadata(file).ok()?.modified().ok());
        Trust { file: file.map(|file| file.to_string_lossy().into_owned()), changed, verifies: true }
    }

    /// The configuration for connections: it trusts Mozilla's and this system's authorities, and those of the file.
    pub(super) fn config(&self) -> Result<ClientConfig, Failure> {
        let broken = |error: &dyn std::fmt::Display| Failure::new("tls", error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| broken(&error))?;
        if !self.verifies {
            let verifier = Arc::new(Unverified(provider));
            return Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth());
        }
        let mut roots = RootCertStore::empty();
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(file) = &self.file {
            let unreadable = |error: &dyn std::fmt::Display| {
                Failure::new("tls", format!("the certificates in {file} cannot be read: {error}"))
            };
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))? {
                let certificate = certificate.map_err(|error| unreadable(&error))?;
                roots.add(certificate).map_err(|error| unreadable(&error))?;
            }
        }
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

/// Accepts any certificate, for the setting `verify_ssl_certificates = false`. The connection is encrypted, but with
/// whom is not known.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
