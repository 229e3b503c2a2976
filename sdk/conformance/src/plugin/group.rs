//! A program together with whatever it starts: none of it outlives the kit.
//!
//! A program of the table `[conformance]` runs in a process group of its own. Its number is let go of (the first process is reaped)
//! only after the whole group was ended, so that it is never another group's by then.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The groups that run; `None` once no more may begin.
static LIVE: Mutex<Option<Vec<Pid>>> = Mutex::new(Some(Vec::new()));

fn live() -> MutexGuard<'static, Option<Vec<Pid>>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every program that the kit started in this process, with all that those started, and lets no other begin: what a command does
/// that is told to end in the middle of a judgement. May be called from any thread.
pub fn end_all() {
    for group in live().take().into_iter().flatten() {
        end_group(group);
    }
}

/// It may be gone already, which is as good.
fn end_group(group: Pid) {
    let _ = kill_process_group(group, Signal::KILL);
}

/// A running group. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    number: Pid,
}

impl Group {
    /// Starts a program as the first of a group.
    ///
    /// # Errors
    /// If it cannot be started, or everything is being ended.
    pub(super) fn spawn(command: &mut Command) -> io::Result<Group> {
        // Held until the group is listed: whoever ends all must see it, or it must see that it may not begin.
        let mut live = live();
        let Some(groups) = live.as_mut() else { return Err(io::Error::other("the kit was told to end")) };
        let mut child = command.process_group(0).spawn()?;
        let Some(number) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other("its process has no number"));
        };
        groups.push(number);
        Ok(Group { child, number })
    }

    /// The standard input of the first process, if it was piped and not taken before.
    pub(super) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The number of the first process, and of the group.
    #[cfg(test)]
    pub(super) fn number(&self) -> i32 {
        self.number.as_raw_nonzero().get()
    }

    /// How the first process ended, if it has; what it left running is ended with it.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.number), options) {
            Ok(None) => Ok(None),
            // Waited for before, if there is none.
            Ok(Some(_)) | Err(Errno::CHILD) => self.end().map(Some),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends all of it, and tells how the first process ended: by itself, if it had.
    pub(super) fn end(&mut self) -> io::Result<ExitStatus> {
        let mut live = live();
        // Not listed: it was waited for before and its number may be another's, or all are being ended.
        let place = live.as_ref().and_then(|groups| groups.iter().position(|number| *number == self.number));
        if let (Some(groups), Some(place)) = (live.as_mut(), place) {
            groups.swap_remove(place);
            end_group(self.number);
        }
        drop(live);
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // There is nobody to tell, and nothing left to do.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::command::wait_until;
    use std::path::Path;
    use std::process::Stdio;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(30);

    /// A shell that starts a process of its own, writes down its number, and goes on with `then`.
    fn with_child(folder: &Path, then: &str) -> (Group, String) {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("sleep 60 & echo $! > number; mv number child; {then}")).current_dir(folder).stdin(Stdio::null());
        let group = Group::spawn(&mut shell).unwrap();
        let child = wait_until(LONG, || std::fs::read_to_string(folder.join("child")).ok()).unwrap();
        (group, child.trim().to_string())
    }

    fn is_gone(number: &str) -> bool {
        let state = || std::fs::read_to_string(format!("/proc/{number}/stat")).ok();
        // A corpse that its new parent has not buried yet is no process any more.
        wait_until(LONG, || state().is_none_or(|stat| stat.contains(") Z ")).then_some(())).is_some()
    }

    #[test]
    fn what_a_program_starts_ends_with_it() {
        for then in ["sleep 60", "exit 3"] {
            let folder = tempfile::tempdir().unwrap();
            let (mut group, child) = with_child(folder.path(), then);
            if then == "exit 3" {
                let status = wait_until(LONG, || group.ended().unwrap()).unwrap();
                assert_eq!(status.code(), Some(3));
                assert_eq!(group.ended().unwrap().and_then(|status| status.code()), Some(3), "it may be asked again");
            } else {
                assert!(group.ended().unwrap().is_none());
            }
            drop(group);
            assert!(is_gone(&child), "{then}: process {child} is still there");
        }
    }
}
