//! Encryption of a connection to PostgreSQL.

use super::address::{Security, Server};
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use openssl::x509::X509;
use postgres_openssl::MakeTlsConnector;
use tidegate_api::{Error, Result};

/// What encrypts, and checks who answers as far as `sslmode` asks.
///
/// # Errors
/// `Config` for authorities that cannot be read.
pub(super) fn connector(server: &Server) -> Result<MakeTlsConnector> {
    let failed = |error: openssl::error::ErrorStack| Error::config("encryption cannot be set up").caused_by(error);
    let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(failed)?;
    let checks = matches!(server.security, Security::VerifyCa | Security::VerifyFull);
    if !checks {
        builder.set_verify(SslVerifyMode::NONE);
    } else if let Some(root) = &server.root {
        let unreadable =
            |error: &dyn std::fmt::Display| Error::config(format!("`sslrootcert`: `{}` cannot be read: {error}", root.display()));
        let text = std::fs::read(root).map_err(|error| unreadable(&error))?;
        let authorities = X509::stack_from_pem(&text).map_err(|error| unreadable(&error))?;
        if authorities.is_empty() {
            return Err(unreadable(&"it holds no certificate"));
        }
        // Those of the system are not trusted beside it.
        let mut store = openssl::x509::store::X509StoreBuilder::new().map_err(failed)?;
        for authority in authorities {
            store.add_cert(authority).map_err(failed)?;
        }
        builder.set_verify_cert_store(store.build()).map_err(failed)?;
    } else {
        for authority in rustls_native_certs::load_native_certs().certs {
            // One that is damaged is one that nobody can be known by.
            if let Ok(authority) = X509::from_der(&authority) {
                let _ = builder.cert_store_mut().add_cert(authority);
            }
        }
    }
    let mut connector = MakeTlsConnector::new(builder.build());
    if server.security != Security::VerifyFull {
        connector.set_callback(|config, _| {
            config.set_verify_hostname(false);
            Ok(())
        });
    }
    Ok(connector)
}
