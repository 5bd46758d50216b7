//! Encrypted connections: the certificate and its key, read once.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{
            CertificateDer, PrivateKeyDer,
            pem::{self, PemObject},
        },
    },
};

use crate::config::Tls;

/// What encrypts connections; otherwise the file that is wrong, and what is wrong with it.
pub fn acceptor(Tls { certificate, key }: &Tls) -> Result<TlsAcceptor, (PathBuf, String)> {
    let wrong = |path: &Path, message: String| (path.to_owned(), message);
    let read = |path: &Path, error: pem::Error| match error {
        pem::Error::Io(error) => wrong(path, error.to_string()),
        pem::Error::NoItemsFound => wrong(path, "there is no key in it, in PEM".to_owned()),
        error => wrong(path, error.to_string()),
    };
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| read(certificate, error))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "there is no certificate in it, in PEM".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| read(key, error))?;
    let configure = || {
        let provider = Arc::new(rustls_graviola::default_provider());
        let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        versions.with_no_client_auth().with_single_cert(chain, private)
    };
    // It panics where the processor lacks an instruction, and that is better known now than at the first connection.
    let configured = catch_unwind(AssertUnwindSafe(configure))
        .map_err(|_| wrong(key, "this processor lacks instructions that connections are encrypted with".to_owned()))?;
    let mut config = configured.map_err(|error| wrong(key, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
