//! Where the database is.

use std::fmt;
use std::path::{Path, PathBuf};
use url::Url;

/// A database's place, from the dataset's `url`.
pub(super) enum Address {
    Sqlite(PathBuf),
    Postgres(Server),
}

/// A PostgreSQL server, and who asks it.
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) database: String,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) security: Security,
    /// The authorities that its certificate may come from; the system's if none.
    pub(super) root: Option<PathBuf>,
}

/// How much is asked of the connection, in the words of `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    Disable,
    /// Encrypted if the server can.
    Prefer,
    /// Encrypted, with whoever answers.
    Require,
    /// With somebody whom an authority knows.
    VerifyCa,
    /// With the host that is asked for.
    VerifyFull,
}

const MODES: [(&str, Security); 5] = [
    ("disable", Security::Disable),
    ("prefer", Security::Prefer),
    ("require", Security::Require),
    ("verify-ca", Security::VerifyCa),
    ("verify-full", Security::VerifyFull),
];

/// Without what may be secret.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Sqlite(path) => write!(f, "the database `{}`", path.display()),
            Address::Postgres(server) => write!(f, "the database `{}` at `{}:{}`", server.database, server.host, server.port),
        }
    }
}

/// A key of the dataset, and what is wrong with it. The message never shows the URL: somebody may have written a password into it.
type Mistake = (&'static str, String);

impl Address {
    /// Reads `url` and `password`.
    pub(super) fn parse(text: &str, password: Option<&str>, base: &Path) -> Result<Self, Mistake> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || path.starts_with(":memory:") {
                return Err(("url", "`sqlite:` is followed by the path of a database file".to_string()));
            }
            if password.is_some() {
                return Err(("password", "a SQLite file has no password; leave this out".to_string()));
            }
            return Ok(Address::Sqlite(base.join(path)));
        }
        let is_postgres = text.starts_with("postgres://") || text.starts_with("postgresql://");
        if !is_postgres {
            return Err(("url", "expected `postgres://USER@HOST:PORT/DATABASE` or `sqlite:PATH`".to_string()));
        }
        let url = Url::parse(text)
            .map_err(|error| ("url", format!("this is no URL: {error}; a password with special characters goes to `password`")))?;
        Server::parse(&url, password, base).map(Address::Postgres)
    }
}

impl Server {
    fn parse(url: &Url, password: Option<&str>, base: &Path) -> Result<Self, Mistake> {
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(("url", "the URL names no host".to_string()))?;
        let user = decoded(url.username())?;
        if user.is_empty() {
            return Err(("url", "the URL names no user: `postgres://USER@HOST:PORT/DATABASE`".to_string()));
        }
        let database = decoded(url.path().trim_start_matches('/'))?;
        if database.is_empty() || database.contains('/') {
            return Err(("url", "the URL names no database: `postgres://USER@HOST:PORT/DATABASE`".to_string()));
        }
        let within = url.password().map(decoded).transpose()?;
        if within.is_some() && password.is_some() {
            return Err(("password", "`url` has a password already; keep one".to_string()));
        }
        let mut server = Server {
            host: host.trim_start_matches('[').trim_end_matches(']').to_string(),
            port: url.port().unwrap_or(5432),
            database,
            user,
            password: within.or_else(|| password.map(str::to_string)),
            security: Security::Prefer,
            root: None,
        };
        for (name, value) in url.query_pairs() {
            match name.as_ref() {
                "sslmode" => match MODES.iter().find(|(known, _)| *known == value) {
                    Some((_, mode)) => server.security = *mode,
                    None => {
                        let known = MODES.map(|(known, _)| format!("`{known}`")).join(", ");
                        return Err(("url", format!("`sslmode` is one of {known}")));
                    }
                },
                "sslrootcert" => server.root = Some(base.join(value.as_ref())),
                other => return Err(("url", format!("`{other}` is none of `sslmode`, `sslrootcert`"))),
            }
        }
        if server.root.is_some() && !matches!(server.security, Security::VerifyCa | Security::VerifyFull) {
            return Err(("url", "`sslrootcert` is looked at with `sslmode=verify-ca` or `sslmode=verify-full` only".to_string()));
        }
        Ok(server)
    }
}

/// Text of a URL without its escapes.
fn decoded(text: &str) -> Result<String, Mistake> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let escaped = behind.get(..2).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match (first, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| ("url", "what is escaped in the URL is not UTF-8".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str, password: Option<&str>) -> Server {
        match Address::parse(text, password, Path::new("base")) {
            Ok(Address::Postgres(server)) => server,
            Ok(Address::Sqlite(_)) => panic!("no server"),
            Err(mistake) => panic!("{mistake:?}"),
        }
    }

    #[test]
    fn a_server_is_read_with_its_escapes_and_shown_without_its_password() {
        let text = "postgresql://an%40na:s%2Fecret@db.example:6432/shop?sslmode=verify-full&sslrootcert=ca.pem";
        let found = server(text, None);
        assert_eq!((found.user.as_str(), found.password.as_deref(), found.port), ("an@na", Some("s/ecret"), 6432));
        assert_eq!((found.security, found.root.as_deref()), (Security::VerifyFull, Some(Path::new("base/ca.pem"))));
        assert_eq!(Address::Postgres(found).to_string(), "the database `shop` at `db.example:6432`");
        let found = server("postgres://me@[::1]/d", Some("p%41@/"));
        assert_eq!((found.host.as_str(), found.port, found.password.as_deref()), ("::1", 5432, Some("p%41@/")));
    }

    #[test]
    fn a_file_stands_beside_the_pipeline() {
        let Ok(Address::Sqlite(path)) = Address::parse("sqlite:data/shop.db", None, Path::new("base")) else { panic!("no file") };
        assert_eq!(path, Path::new("base/data/shop.db"));
    }

    #[test]
    fn mistakes_never_show_the_url() {
        for text in [
            "sqlite:",
            "postgres://user:hidden@host",
            "postgres://:hidden@host/db",
            "postgres://user:hidden@host/db?sslmode=maybe",
            "postgres://user:hidden@host/db?timeout=1",
            "postgres://user:hid/den@host:x/db",
            "mysql://user:hidden@host/db",
            "postgres://user:hidden@host/db?sslrootcert=x",
        ] {
            let Err((key, message)) = Address::parse(text, None, Path::new(".")) else { panic!("{text} is no mistake") };
            assert!(key == "url" && !message.contains("hid"), "{text}: {message}");
        }
    }
}
