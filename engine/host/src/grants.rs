//! What a source or sink is allowed beside its rows: the table `allow` of the pipeline file. Nothing by default.

mod hosts;

pub use hosts::{Host, HostGrant, HttpGrant};

use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use tidegate_api::config::{Options, Problem};

/// The grants of one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Grants {
    /// Directories.
    pub dirs: Vec<DirGrant>,
    /// Names of environment variables.
    pub env: Vec<String>,
    /// Wall time.
    pub clock: bool,
    /// Secure random numbers.
    pub random: bool,
    /// Origins that requests may be made to.
    pub http: Vec<HttpGrant>,
    /// Where TCP connections may go.
    pub tcp: Vec<HostGrant>,
    /// Where UDP datagrams may go and come from.
    pub udp: Vec<HostGrant>,
}

/// One directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirGrant {
    /// Where it is on the host.
    pub host: PathBuf,
    /// What the guest calls it.
    pub guest: String,
    /// Whether the guest may write.
    pub writable: bool,
}

impl Grants {
    /// These grants; of each kind that there is none of, the others'.
    #[must_use]
    pub fn or(self, others: Grants) -> Grants {
        fn either<T>(these: Vec<T>, others: Vec<T>) -> Vec<T> {
            if these.is_empty() { others } else { these }
        }
        Grants {
            dirs: either(self.dirs, others.dirs),
            env: either(self.env, others.env),
            clock: self.clock || others.clock,
            random: self.random || others.random,
            http: either(self.http, others.http),
            tcp: either(self.tcp, others.tcp),
            udp: either(self.udp, others.udp),
        }
    }

    /// Reads the table `allow`. Directories are relative to `base`.
    ///
    /// # Errors
    /// Every mistake, with its key; a grant that this host cannot give is one.
    pub fn parse(table: &Map<String, Value>, base: &Path) -> Result<Grants, Vec<Problem>> {
        let mut options = Options::new(table);
        let mut grants = Grants::default();
        for text in options.strings("dirs").unwrap_or_default() {
            match DirGrant::parse(&text, base) {
                Ok(dir) if grants.dirs.iter().any(|other| other.guest == dir.guest) => {
                    options.problem("dirs", format!("`{}` is granted twice; give one of them another guest name", dir.guest));
                }
                Ok(dir) => grants.dirs.push(dir),
                Err(problem) => options.problem("dirs", problem),
            }
        }
        for name in options.strings("env").unwrap_or_default() {
            if name.is_empty() || name.contains(['=', '\0']) {
                options.problem("env", format!("`{name}` is not a variable's name; values stay in the environment"));
            } else {
                grants.env.push(name);
            }
        }
        grants.clock = options.boolean("clock").unwrap_or(false);
        grants.random = options.boolean("random").unwrap_or(false);
        grants.http = parsed(&mut options, "http", HttpGrant::parse);
        grants.tcp = parsed(&mut options, "tcp", HostGrant::parse);
        grants.udp = parsed(&mut options, "udp", HostGrant::parse);
        let problems = options.finish();
        if problems.is_empty() { Ok(grants) } else { Err(problems) }
    }

    /// Whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        self == &Grants::default()
    }

    /// A directory granted for writing whose file system has become read-only. Asked by removing what is not there, which leaves no trace: a
    /// read-only file system refuses before it looks.
    pub(crate) fn read_only(&self) -> Option<&Path> {
        let refuses = |grant: &&DirGrant| {
            let asked = std::fs::remove_dir(grant.host.join(".tidegate-is-not-here"));
            asked.is_err_and(|error| error.kind() == std::io::ErrorKind::ReadOnlyFilesystem)
        };
        self.dirs.iter().filter(|grant| grant.writable).find(refuses).map(|grant| grant.host.as_path())
    }
}

/// Reads a list of grants; what cannot be read is a problem.
fn parsed<T>(options: &mut Options<'_>, key: &str, parse: fn(&str) -> Result<T, String>) -> Vec<T> {
    let texts = options.strings(key).unwrap_or_default();
    let read = texts.iter().filter_map(|text| match parse(text) {
        Ok(grant) => Some(grant),
        Err(problem) => {
            options.problem(key, problem);
            None
        }
    });
    read.collect()
}

impl DirGrant {
    /// `HOST[=GUEST][:ro|rw]`.
    fn parse(text: &str, base: &Path) -> Result<DirGrant, String> {
        let (paths, writable) = match text.rsplit_once(':') {
            Some((paths, "rw")) => (paths, true),
            Some((paths, "ro")) => (paths, false),
            // A colon within the last part of a path can only be a slip in the mode.
            Some((_, mode)) if !mode.contains(['/', '=']) => {
                return Err(format!("`{text}` ends in `:{mode}`; a directory is `:ro` (as without it) or `:rw`"));
            }
            Some(_) | None => (text, false),
        };
        let (host, guest) = paths.split_once('=').unwrap_or((paths, paths));
        if host.is_empty() || guest.is_empty() {
            return Err(format!("`{text}` is not `HOST`, `HOST=GUEST`, `HOST:rw` or `HOST=GUEST:rw`"));
        }
        Ok(DirGrant { host: base.join(host), guest: guest.to_string(), writable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(value: Value) -> Result<Grants, Vec<String>> {
        let parsed = Grants::parse(value.as_object().unwrap(), Path::new("/base"));
        parsed.map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn directories_are_read_only_unless_said() {
        let grants = parse(json!({ "dirs": ["in", "out=/out:rw", "/abs=/x:ro"] })).unwrap();
        let dir = |host: &str, guest: &str, writable| DirGrant { host: host.into(), guest: guest.into(), writable };
        assert_eq!(grants.dirs, [dir("/base/in", "in", false), dir("/base/out", "/out", true), dir("/abs", "/x", false)]);
    }

    #[test]
    fn a_slip_in_the_mode_is_refused_and_not_taken_for_a_path() {
        let problems = parse(json!({ "dirs": ["out=/out:xx"] })).unwrap_err();
        assert!(problems[0].contains("`:xx`") && problems[0].contains("`:rw`"), "{problems:?}");
    }

    #[test]
    fn the_network_is_granted_by_origin_and_by_host_and_port() {
        let grants =
            parse(json!({ "http": ["https://api.example.com"], "tcp": ["db.example.com:5432"], "udp": ["127.0.0.1:53"] })).unwrap();
        let written: Vec<String> = grants.tcp.iter().chain(&grants.udp).map(ToString::to_string).collect();
        assert_eq!(
            (grants.http[0].to_string().as_str(), written.as_slice()),
            ("https://api.example.com", ["db.example.com:5432".to_string(), "127.0.0.1:53".into()].as_slice())
        );
        assert!(!grants.is_empty());
    }

    #[test]
    fn all_mistakes_come_together() {
        let problems = parse(json!({ "http": ["x", "https://y/z"], "tcp": ["h"], "dirs": ["=x"], "claock": true })).unwrap_err();
        assert_eq!(problems.len(), 5, "{problems:?}");
        assert!(problems.iter().any(|problem| problem.starts_with("http: ") && problem.contains("`x` is no origin")), "{problems:?}");
    }
}
