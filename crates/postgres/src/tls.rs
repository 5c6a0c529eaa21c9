//! TLS to the server, with as much verification as `sslmode` asks for.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How much of the server's certificate is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Nothing: the connection is encrypted, with whomever it is.
    Nothing,
    /// That a trusted authority has issued it.
    Issuer,
    /// That, and that it is for the host of the URI.
    IssuerAndName,
}

/// The connector. `roots` is a file of trusted certificates, in place of the system's.
pub(crate) fn connector(verify: Verify, roots: Option<&Path>) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(ring::default_provider());
    let known = match verify {
        Verify::Nothing => None,
        Verify::Issuer | Verify::IssuerAndName => {
            let trusted = Arc::new(trusted(roots)?);
            let known = WebPkiServerVerifier::builder_with_provider(trusted, provider.clone()).build();
            Some(known.map_err(|error| error.to_string())?)
        }
    };
    let verifier = Verifier { verify, known, provider: provider.clone() };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn trusted(roots: Option<&Path>) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    match roots {
        Some(path) => {
            let bad = |error: &dyn std::fmt::Display| format!("sslrootcert {}: {error}", path.display());
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))? {
                let certificate = certificate.map_err(|error| bad(&error))?;
                store.add(certificate).map_err(|error| bad(&error))?;
            }
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if store.is_empty() {
        return Err("there are no trusted certificates: name a file with sslrootcert".into());
    }
    Ok(store)
}

/// Verifies as much as is asked for. The server always proves that it has the certificate's key.
#[derive(Debug)]
struct Verifier {
    verify: Verify,
    known: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(known) = &self.known else { return Ok(ServerCertVerified::assertion()) };
        match known.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is looked at last.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.verify == Verify::Issuer => Ok(ServerCertVerified::assertion()),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
