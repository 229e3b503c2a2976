//! TLS belongs to the host: a guest asks for `https` and never sees a key or a certificate.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::grants::Host;

/// Makes connections secure; one per plugin. The machine's certificates are read when the first is made.
#[derive(Default)]
pub(crate) struct Tls(OnceLock<TlsConnector>);

impl Tls {
    /// With these authorities in place of the machine's.
    #[cfg(test)]
    pub(super) fn trusting(authorities: Vec<CertificateDer<'static>>) -> Tls {
        Tls(OnceLock::from(connector(authorities).unwrap()))
    }

    pub(super) async fn secure(&self, host: &Host, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let connector = match self.0.get() {
            Some(connector) => connector,
            None => {
                let made = connector(rustls_native_certs::load_native_certs().certs)?;
                self.0.get_or_init(|| made)
            }
        };
        connector.connect(server(host)?, stream).await
    }
}

/// Whom the certificate must be of.
fn server(host: &Host) -> io::Result<ServerName<'static>> {
    match host {
        Host::Address(address) => Ok(ServerName::from(IpAddr::from(*address))),
        Host::Name(name) | Host::Below(name) => ServerName::try_from(name.clone()).map_err(io::Error::other),
    }
}

fn connector(authorities: Vec<CertificateDer<'static>>) -> io::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    // An authority that cannot be read is none; a machine without any trusts nobody, and says so when it connects.
    roots.add_parsable_certificates(authorities);
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions();
    let config = config.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject;

    fn fixture(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
    }

    /// What a client that knows these authorities reads from a server whose certificate is of `api.example` and 127.0.0.1.
    fn greeted(tls: Tls, host: &Host) -> io::Result<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let certificate = CertificateDer::from_pem_file(fixture("localhost.pem")).unwrap();
            let key = PrivateKeyDer::from_pem_file(fixture("localhost.key")).unwrap();
            let config = ServerConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions().unwrap();
            let config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            tokio::spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                if let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await {
                    stream.write_all(b"welcome").await.unwrap();
                    stream.shutdown().await.unwrap();
                }
            });
            let mut stream = tls.secure(host, TcpStream::connect(at).await?).await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            Ok(text)
        })
    }

    #[test]
    fn a_certificate_must_be_of_the_host_and_from_an_authority_that_is_trusted() {
        let trusting = || Tls::trusting(vec![CertificateDer::from_pem_file(fixture("ca.pem")).unwrap()]);
        let host = |text: &str| Host::read(text).unwrap();
        assert_eq!(greeted(trusting(), &host("api.example")).unwrap(), "welcome");
        assert_eq!(greeted(trusting(), &host("127.0.0.1")).unwrap(), "welcome");
        assert!(greeted(trusting(), &host("other.example")).unwrap_err().to_string().contains("not valid for name"));
        assert!(greeted(Tls::default(), &host("api.example")).unwrap_err().to_string().contains("certificate"));
    }
}
