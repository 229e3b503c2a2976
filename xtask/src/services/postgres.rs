//! PostgreSQL as the system has it, with a data folder of its own. It refuses to run as root, so there it runs as the user that the
//! package brings.

use super::install::cache;
use super::recipe::{Recipe, free_ports};
use crate::process::{run_quietly, succeeds};
use crate::system;
use anyhow::{Context, Result};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable by which tests find it.
pub(crate) const VARIABLE: &str = "TIDEGATE_TEST_POSTGRES";

/// The user of the system that runs it where root may not.
const ACCOUNT: &str = "postgres";

/// Who owns everything in it.
const USER: &str = "tidegate";
const PASSWORD: &str = "neap-and-spring";

/// Where the one that `up` starts keeps what it holds. Root's own cache is closed to the user that runs it.
pub(super) fn home() -> Result<PathBuf> {
    if system::is_root() { Ok(PathBuf::from("/var/cache/tidegate/services/postgres")) } else { Ok(cache()?.join("postgres")) }
}

/// A server over `folder`, on `wanted` if that port is free.
///
/// # Errors
/// If it can be neither found nor installed, or does not make its data folder.
pub(crate) fn over(folder: &Path, wanted: u16) -> Result<Recipe> {
    let programs = install()?;
    let account = if system::is_root() { Some(Account::find()?) } else { None };
    if let Some(account) = &account {
        chown(folder, Some(account.user), Some(account.group))
            .with_context(|| format!("cannot give `{}` to `{ACCOUNT}`", folder.display()))?;
    }
    let data = folder.join("data");
    if !data.exists() {
        initialise(folder, &data, &programs.join("initdb"), account.as_ref())?;
    }
    let port = free_ports(&[wanted])?.first().copied().context("no ports")?;
    let (program, mut arguments) = Account::acting(account.as_ref(), &programs.join("postgres"));
    arguments.extend(["-D".to_string(), data.display().to_string(), "-p".to_string(), port.to_string()]);
    // A crash of the machine may cost it everything: then it is made again.
    for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=50"] {
        arguments.extend(["-c".to_string(), setting.to_string()]);
    }
    let endpoint = format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres");
    Ok(Recipe {
        what: "the PostgreSQL server",
        program,
        arguments,
        environment: Vec::new(),
        log: folder.join("server.log"),
        ready: "database system is ready to accept connections",
        port,
        told: [(VARIABLE.to_string(), endpoint.clone())].into(),
        endpoint,
    })
}

/// Makes the data folder; by a rename, so that it is whole or not there.
fn initialise(folder: &Path, data: &Path, initdb: &Path, account: Option<&Account>) -> Result<()> {
    let (fresh, password) = (folder.join("data.new"), folder.join("password"));
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh).with_context(|| format!("cannot remove `{}`, which is half made", fresh.display()))?;
    }
    std::fs::write(&password, PASSWORD).with_context(|| format!("cannot write `{}`", password.display()))?;
    let (program, arguments) = Account::acting(account, initdb);
    let mut command = Command::new(program);
    command.args(arguments).args(["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--username", USER]);
    command.arg("--pwfile").arg(&password).arg("-D").arg(&fresh).current_dir(folder);
    run_quietly(&mut command).context("the data folder of PostgreSQL cannot be made")?;
    std::fs::rename(&fresh, data).with_context(|| format!("cannot make `{}`", data.display()))
}

/// The user that runs it where root may not.
struct Account {
    user: u32,
    group: u32,
}

impl Account {
    fn find() -> Result<Self> {
        let number = |option: &str| -> Option<u32> {
            let output = Command::new("id").args([option, ACCOUNT]).output().ok().filter(|output| output.status.success())?;
            String::from_utf8_lossy(&output.stdout).trim().parse().ok()
        };
        let found = number("-u").zip(number("-g"));
        let (user, group) = found.with_context(|| format!("PostgreSQL refuses to run as root, and there is no user `{ACCOUNT}`"))?;
        Ok(Account { user, group })
    }

    /// How a program is run as this user. The helper becomes the program, so that the process that was started is the server.
    fn acting(account: Option<&Account>, program: &Path) -> (PathBuf, Vec<String>) {
        let Some(Account { user, group }) = account else { return (program.to_path_buf(), Vec::new()) };
        let arguments = [format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".into(), program.display().to_string()];
        ("setpriv".into(), arguments.into())
    }
}

/// The folder of its programs. Debian keeps them beside each other by version, and none on the path.
fn install() -> Result<PathBuf> {
    if let Some(found) = find() {
        return Ok(found);
    }
    system::install(&["postgresql"])?;
    find().context("`postgresql` was installed, but its programs are not where Debian puts them")
}

fn find() -> Option<PathBuf> {
    let newest = newest(Path::new("/usr/lib/postgresql"));
    let on_path = || {
        let output = Command::new("pg_config").arg("--bindir").output().ok().filter(|output| output.status.success())?;
        Some(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
    };
    newest.or_else(on_path).filter(|folder| succeeds(&folder.join("postgres").display().to_string(), &["--version"]))
}

/// Of the folders `VERSION/bin` that hold the server, the one of the highest version.
fn newest(root: &Path) -> Option<PathBuf> {
    let folders = std::fs::read_dir(root).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let versions = folders.filter_map(|folder| {
        let version: u32 = folder.file_name()?.to_str()?.parse().ok()?;
        let programs = folder.join("bin");
        (programs.join("postgres").is_file() && programs.join("initdb").is_file()).then_some((version, programs))
    });
    versions.max().map(|(_, programs)| programs)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may end by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_has_a_server_is_used() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(newest(root.path()), None);
        for (version, programs) in [("9", &["postgres", "initdb"][..]), ("15", &["postgres", "initdb"]), ("17", &["psql"]), ("x", &[])] {
            let folder = root.path().join(version).join("bin");
            std::fs::create_dir_all(&folder).unwrap();
            programs.iter().for_each(|program| std::fs::write(folder.join(program), "").unwrap());
        }
        assert_eq!(newest(root.path()), Some(root.path().join("15/bin")));
    }

    #[test]
    fn it_is_run_as_the_other_user_only_where_there_is_one() {
        let server = Path::new("/x/postgres");
        assert_eq!(Account::acting(None, server), (server.to_path_buf(), vec![]));
        let (program, arguments) = Account::acting(Some(&Account { user: 7, group: 8 }), server);
        assert_eq!(program, Path::new("setpriv"));
        assert_eq!(arguments, ["--reuid=7", "--regid=8", "--clear-groups", "/x/postgres"]);
    }
}
