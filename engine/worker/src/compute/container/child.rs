//! One child process and its pipes.
//!
//! The pipes do not block and belong to the task's own runtime: writing, reading and draining stderr happen together under one timeout, and no
//! thread waits for any of them.

use super::frame::{self, Kind, Unreadable};
use super::launch::Launch;
use super::said::Said;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::os::fd::OwnedFd;
use std::process::{Child as Process, Command, ExitStatus};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

/// How often an ending process is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// How long the status and the last words of a process that closed its stdout are waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long a killed process may take to be gone; it cannot resist, but the system may be slow.
const GONE: Duration = Duration::from_secs(5);

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// The process, or its stdout, ended.
    Died(String),
    /// Not in time.
    Late(String),
    /// What it sent breaks the protocol, or its declaration.
    Broken(String),
    /// It announced more bytes than it may send.
    TooLarge(u64),
    /// It says that the call failed: JSON.
    Failed(Vec<u8>),
}

/// The frames of an answer.
pub(super) struct Answer {
    pub(super) kind: Kind,
    pub(super) payload: Vec<u8>,
    pub(super) bad: Option<Vec<u8>>,
}

/// A running process.
pub(super) struct Child {
    process: Process,
    launch: Launch,
    name: String,
    stdin: Option<Sender>,
    stdout: Receiver,
    stderr: Receiver,
    said: Said,
    output: u64,
}

impl Child {
    /// Starts a process. `name` is unique on this machine.
    pub(super) fn start(runtime: &Runtime, launch: &Launch, name: String, said: Said, output: u64) -> Result<Child, Fault> {
        let cannot = |error: std::io::Error| Fault::Died(format!("{} cannot be started: {error}", launch.shown()));
        let mut process = launch.command(&name).spawn().map_err(cannot)?;
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(Fault::Died("it has no pipes".into()));
        };
        let _guard = runtime.enter();
        let opened = (|| {
            let stdin = Sender::from_owned_fd(OwnedFd::from(stdin))?;
            Ok((stdin, Receiver::from_owned_fd(OwnedFd::from(stdout))?, Receiver::from_owned_fd(OwnedFd::from(stderr))?))
        })();
        match opened {
            Ok((stdin, stdout, stderr)) => {
                Ok(Child { process, launch: launch.clone(), name, stdin: Some(stdin), stdout, stderr, said, output })
            }
            Err(error) => {
                // Its pipes are closed by now; nothing more can be done with it.
                let _ = process.kill();
                let _ = process.wait();
                Err(cannot(error))
            }
        }
    }

    /// Sends a frame and reads the answer to it, all within `deadline`.
    pub(super) fn call(&mut self, runtime: &Runtime, kind: Kind, number: u64, payload: &[u8], deadline: Duration) -> Result<Answer, Fault> {
        let Child { stdin, stdout, stderr, said, output, .. } = self;
        let Some(stdin) = stdin.as_mut() else { return Err(Fault::Died("its stdin is closed".into())) };
        let Some(header) = frame::header(kind, number, payload.len()) else {
            return Err(Fault::Broken(format!("a batch of {} bytes is too large for a frame; set a smaller `batchBytes`", payload.len())));
        };
        let exchange = async {
            // A process that has closed its stdin may still say why.
            let write = async {
                if stdin.write_all(&header).await.is_ok() {
                    let _ = stdin.write_all(payload).await;
                }
            };
            let read = answer(stdout, number, *output);
            let listen = async {
                said.drain(stderr).await;
                std::future::pending::<()>().await;
            };
            tokio::pin!(write, read, listen);
            let mut written = false;
            let answer = loop {
                tokio::select! {
                    () = &mut write, if !written => written = true,
                    answer = &mut read => break answer,
                    () = &mut listen => {}
                }
            };
            if !written && answer.is_ok() {
                // Answered before it had read everything: the rest must go, or the next frame would begin in the middle.
                tokio::select! {
                    () = &mut write => {}
                    () = &mut listen => {}
                }
            }
            answer
        };
        match runtime.block_on(async { timeout(deadline, exchange).await }) {
            Ok(answer) => answer,
            Err(_) => Err(Fault::Late(format!("it did not answer within {deadline:?}"))),
        }
    }

    /// Kills it and its group; how it ended, if it had ended by itself, and its last words.
    pub(super) fn kill(mut self, runtime: &Runtime) -> String {
        let Child { process, stderr, said, .. } = &mut self;
        runtime.block_on(async {
            // Whoever closed its stdout is most likely about to end; its status says more than that it was killed.
            let ended = async {
                while !has_ended(process) {
                    sleep(LOOK).await;
                }
            };
            let _ = timeout(LAST_WORDS, async { tokio::join!(ended, said.drain(stderr)) }).await;
        });
        self.end(runtime)
    }

    /// As [`Child::kill`], of one that is known not to end by itself.
    pub(super) fn kill_now(mut self, runtime: &Runtime) -> String {
        self.end(runtime)
    }

    fn end(&mut self, runtime: &Runtime) -> String {
        let by_itself = has_ended(&self.process);
        // Before it is waited for, because then its number may become another's.
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        if let (false, Some(command)) = (by_itself, self.launch.ending(&self.name)) {
            end_container(runtime, command);
        }
        let Child { process, stderr, said, .. } = self;
        let status = runtime.block_on(async {
            let _ = timeout(LOOK, said.drain(stderr)).await;
            wait(process, GONE).await
        });
        if status.is_none() {
            tracing::error!(target: "tidegate::container", process = self.process.id(), "a killed process does not go away");
        }
        self.said.tell_dropped();
        let how = status.filter(|_| by_itself).map(|status| format!(" ({status})")).unwrap_or_default();
        format!("{how}{}", self.said.last_words())
    }

    /// Ends it: its stdin is closed, and if it has not ended within `grace` it is killed.
    pub(super) fn close(mut self, runtime: &Runtime, grace: Duration) {
        drop(self.stdin.take());
        let Child { process, stdout, stderr, said, .. } = &mut self;
        let ended = runtime.block_on(async {
            let ended = async {
                while !has_ended(process) {
                    sleep(LOOK).await;
                }
            };
            let discard = async {
                let mut chunk = [0; 4096];
                while stdout.read(&mut chunk).await.is_ok_and(|count| count > 0) {}
                std::future::pending::<()>().await;
            };
            let listen = async {
                said.drain(stderr).await;
                std::future::pending::<()>().await;
            };
            timeout(grace, async {
                tokio::select! {
                    () = ended => {}
                    () = discard => {}
                    () = listen => {}
                }
            })
            .await
            .is_ok()
        });
        if !ended {
            tracing::warn!(target: "tidegate::container", process = self.process.id(), "it did not end when its stdin was closed, and is killed");
        }
        self.end(runtime);
    }
}

/// Reads frames up to the one that ends the answer.
async fn answer(stdout: &mut Receiver, number: u64, limit: u64) -> Result<Answer, Fault> {
    let mut bad = None;
    loop {
        let (kind, payload) = frame::read(stdout, number, limit).await.map_err(|error| match error {
            Unreadable::Ended(what) => Fault::Died(what),
            Unreadable::Broken(what) => Fault::Broken(what),
            Unreadable::TooLarge(bytes) => Fault::TooLarge(bytes),
        })?;
        match kind {
            Kind::Open | Kind::Rows => return Ok(Answer { kind, payload, bad }),
            Kind::Fail => return Err(Fault::Failed(payload)),
            Kind::Bad if bad.is_some() => return Err(Fault::Broken("it sent two frames `bads` in one answer".into())),
            Kind::Bad => bad = Some(payload),
        }
    }
}

/// Whether it has ended, without taking its status, so that its number stays its own.
fn has_ended(process: &Process) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(Pid::from_child(process)), options) {
        Ok(status) => status.is_some(),
        // There is nothing to wait for.
        Err(_) => true,
    }
}

/// Waits for an end that is near.
async fn wait(process: &mut Process, within: Duration) -> Option<ExitStatus> {
    let ended = async {
        loop {
            match process.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) => sleep(LOOK).await,
                Err(_) => return None,
            }
        }
    };
    timeout(within, ended).await.unwrap_or_default()
}

/// Runs the command that ends a container, which may itself hang.
fn end_container(runtime: &Runtime, mut command: Command) {
    let Ok(mut process) = command.spawn() else { return };
    if runtime.block_on(async { wait(&mut process, GONE).await }).is_none() {
        let _ = kill_process_group(Pid::from_child(&process), Signal::KILL);
        let _ = process.wait();
    }
}
