//! Small disks of our own, which can be full and read-only. They exist in a mount namespace of this process alone, so that nothing of them
//! is left when it ends, however it ends.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const INSIDE: &str = "TIDEGATE_CHAOS_NAMESPACE";
/// What is left free on a full disk.
const LEFT: u64 = 4 << 10;
const SIZE: &str = "size=48m";

/// Whether this process has a mount namespace of its own.
pub(crate) fn are_possible() -> bool {
    std::env::var_os(INSIDE).is_some_and(|inside| inside == "private")
}

/// Runs this very test again in a mount namespace of its own, if the machine gives one. `None` if this is that run.
pub(crate) fn again_in_private(test: &str) -> Option<Output> {
    if std::env::var_os(INSIDE).is_some() {
        return None;
    }
    let ways: [&[&str]; 2] = [&["--mount"], &["--mount", "--map-root-user"]];
    let tried = |way: &&&[&str]| {
        Command::new("unshare").args(**way).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output().is_ok_and(|ran| ran.status.success())
    };
    let way = ways.iter().find(tried);
    let mut again = match way {
        Some(way) => {
            let mut again = Command::new("unshare");
            again.args(*way).arg(std::env::current_exe().unwrap()).env(INSIDE, "private");
            again
        }
        None => {
            eprintln!("this machine lets us mount nothing: full and read-only disks are left out");
            let mut again = Command::new(std::env::current_exe().unwrap());
            again.env(INSIDE, "shared");
            again
        }
    };
    again.args(["--exact", test, "--nocapture"]);
    if std::env::var_os("TIDEGATE_CHAOS_KILLS").is_some() {
        // Somebody watches.
        again.stdout(std::process::Stdio::inherit()).stderr(std::process::Stdio::inherit());
    }
    Some(again.output().unwrap())
}

/// A small disk, mounted; unmounted when it is dropped.
pub(crate) struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    pub(crate) fn mount(at: &Path) -> SmallDisk {
        fs::create_dir_all(at).unwrap();
        mount(&["-t", "tmpfs", "-o", SIZE, "tmpfs"], at).unwrap();
        SmallDisk { at: at.to_path_buf() }
    }

    /// Leaves next to nothing free.
    pub(crate) fn fill(&self) {
        let mut ballast = File::create(self.ballast()).unwrap();
        let block = vec![0_u8; 64 << 10];
        let mut written = 0;
        let mut size = block.len();
        while size > 0 {
            match ballast.write(&block[..size]) {
                Ok(0) | Err(_) => size /= 2,
                Ok(count) => written += count as u64,
            }
        }
        ballast.set_len(written.saturating_sub(LEFT)).unwrap();
        ballast.seek(SeekFrom::End(0)).unwrap();
    }

    pub(crate) fn relieve(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.at.join(".ballast")
    }

    /// Answers whether it became read-only; a file open for writing prevents it.
    pub(crate) fn try_make_read_only(&self) -> bool {
        mount(&["-o", "remount,ro"], &self.at).is_ok()
    }

    pub(crate) fn make_writable(&self) {
        mount(&["-o", "remount,rw"], &self.at).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What was not unmounted goes with the namespace.
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

fn mount(arguments: &[&str], at: &Path) -> Result<(), String> {
    let output = Command::new("mount").args(arguments).arg(at).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
