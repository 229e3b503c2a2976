//! The S3 server that keeps epochs, to be killed and started again over what it has on disk. `TIDEGATE_TEST_S3_MORTAL` says how.

use serde_json::Value;
use std::fs::{self, File};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use tidegate_tests::process::wait_until;

pub(crate) struct Server {
    pub(crate) endpoint: String,
    how: Value,
    child: Option<Child>,
}

impl Server {
    pub(crate) fn start() -> Server {
        let how = std::env::var("TIDEGATE_TEST_S3_MORTAL")
            .expect("TIDEGATE_TEST_S3_MORTAL does not say how a server is started; `cargo xtask chaos` does");
        let how: Value = serde_json::from_str(&how).unwrap();
        let mut server = Server { endpoint: how["endpoint"].as_str().unwrap().to_string(), how, child: None };
        server.restart();
        server
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts it again, and waits until it answers.
    pub(crate) fn restart(&mut self) {
        let text = |key: &str| self.how[key].as_str().unwrap();
        let log = text("log");
        let output = File::create(log).unwrap();
        let arguments = self.how["arguments"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
        let mut command = Command::new(text("program"));
        command.args(arguments).env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "testsecret");
        let child = command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        self.child = Some(child);
        let address = self.endpoint.trim_start_matches("http://");
        let is_up = || fs::read_to_string(log).unwrap().contains("components are running") && TcpStream::connect(address).is_ok();
        wait_until(is_up, "the S3 server does not come up");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
