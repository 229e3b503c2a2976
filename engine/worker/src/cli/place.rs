//! Where epochs lie, as a person names it: a directory, the address of a bucket, or a pipeline file that says which.

use super::read;
use super::run::default_state_dir;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tidegate::settings::Settings;
use tidegate_epochs::store::bucket::config::complete;
use tidegate_epochs::{BucketStore, BucketUrl, DirectoryStore, EpochStore};

/// A store, or the exit code after saying why there is none.
pub(super) type Opened = Result<Arc<dyn EpochStore>, u8>;

/// Opens a store that is there. Makes nothing.
pub(super) fn existing(place: &str) -> Opened {
    if BucketUrl::is_one(place) {
        return bucket(place);
    }
    let path = Path::new(place);
    if path.is_file() {
        return of_pipeline(path);
    }
    directory(path)
}

/// Opens a store to be written, making its directory.
pub(super) fn fresh(place: &str) -> Opened {
    if BucketUrl::is_one(place) {
        return bucket(place);
    }
    if Path::new(place).is_file() {
        eprintln!("`{place}` is a file; name a directory, or the address of a bucket such as `s3://BUCKET/PREFIX`");
        return Err(super::USAGE);
    }
    DirectoryStore::open(place).map(|store| Arc::new(store) as Arc<dyn EpochStore>).map_err(|error| super::failed(&error))
}

fn directory(path: &Path) -> Opened {
    match DirectoryStore::open_existing(path) {
        Ok(Some(store)) => Ok(Arc::new(store)),
        Ok(None) => {
            eprintln!("there are no epochs in `{}`; name a `stateDir`, a `stateUrl`, or a pipeline file", path.display());
            Err(super::USAGE)
        }
        Err(error) => Err(super::failed(&error)),
    }
}

/// A bucket named at the shell: how it is reached stands in the provider's environment variables.
fn bucket(address: &str) -> Opened {
    let url = BucketUrl::parse(address).map_err(|message| {
        eprintln!("{message}");
        super::USAGE
    })?;
    let mut options = BTreeMap::new();
    complete(&url, &mut options, &|name| std::env::var(name).ok());
    open_bucket(&url, &options)
}

fn open_bucket(url: &BucketUrl, options: &BTreeMap<String, String>) -> Opened {
    let opened = BucketStore::open(&url.to_string(), options);
    opened.map(|store| Arc::new(store) as Arc<dyn EpochStore>).map_err(|error| super::failed(&error))
}

fn of_pipeline(path: &Path) -> Opened {
    let file = read(path).map_err(|mistakes| super::refuse(&mistakes))?;
    let settings = Settings::read(&file.host_settings().settings, 1).map_err(|problems| {
        let problems = problems.into_iter().map(|problem| problem.under(["settings"])).collect();
        super::refuse(&file.locate(problems))
    })?;
    match (&settings.state_url, &settings.state_dir) {
        (Some(url), _) => open_bucket(url, &settings.state_options),
        (None, Some(dir)) => directory(&file.base_dir().join(dir)),
        (None, None) => directory(&default_state_dir(&file)),
    }
}
