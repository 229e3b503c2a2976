//! Where servers are installed and keep what they hold.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// The cache of this user: outside of the clone, so that another clone finds them too.
pub(super) fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("tidegate").join("services"))
}

/// The folder `name` of the cache, where `wanted` is; `fill` brings it into a fresh folder if it is not there.
pub(super) fn installed(name: &str, wanted: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    installed_in(&cache()?, name, wanted, fill)
}

fn installed_in(cache: &Path, name: &str, wanted: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = cache.join(name);
    if folder.join(wanted).exists() {
        return Ok(folder);
    }
    std::fs::create_dir_all(cache).context("cannot make the cache of services")?;
    let fresh = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(cache).context("no folder to install into")?;
    fill(fresh.path())?;
    ensure!(fresh.path().join(wanted).exists(), "the installation of `{name}` brought no `{wanted}`");
    // By a rename, so that whoever looks finds all of it or nothing; another task may have been faster.
    let kept = fresh.keep();
    if let Err(error) = std::fs::rename(&kept, &folder) {
        std::fs::remove_dir_all(&kept).with_context(|| format!("cannot remove `{}`", kept.display()))?;
        if !folder.join(wanted).exists() {
            return Err(error).with_context(|| format!("cannot make `{}`", folder.display()));
        }
    }
    Ok(folder)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may end by panicking")]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn a_half_done_installation_leaves_nothing_and_a_whole_one_is_used_again() {
        let cache = tempfile::tempdir().unwrap();
        let error = installed_in(cache.path(), "x-1", "bin/x", |fresh| {
            std::fs::create_dir(fresh.join("bin"))?;
            bail!("the network went away")
        });
        assert!(error.unwrap_err().to_string().contains("went away"));
        let error = installed_in(cache.path(), "x-1", "bin/x", |_| Ok(()));
        assert!(error.unwrap_err().to_string().contains("brought no `bin/x`"));
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 0);

        let fill = |fresh: &Path| {
            std::fs::create_dir(fresh.join("bin"))?;
            Ok(std::fs::write(fresh.join("bin/x"), "")?)
        };
        let folder = installed_in(cache.path(), "x-1", "bin/x", fill).unwrap();
        assert!(folder.join("bin/x").is_file());
        assert_eq!(installed_in(cache.path(), "x-1", "bin/x", |_| bail!("again")).unwrap(), folder);
    }

    #[test]
    fn who_installs_at_the_same_time_uses_what_was_first() {
        let cache = tempfile::tempdir().unwrap();
        let folder = installed_in(cache.path(), "x-1", "x", |fresh| {
            installed_in(cache.path(), "x-1", "x", |inner| Ok(std::fs::write(inner.join("x"), "first")?))?;
            Ok(std::fs::write(fresh.join("x"), "second")?)
        });
        assert_eq!(std::fs::read_to_string(folder.unwrap().join("x")).unwrap(), "first");
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1);
    }
}
