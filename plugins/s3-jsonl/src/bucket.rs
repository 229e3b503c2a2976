//! The requests to the bucket.

use crate::config::{ACCESS_KEY, Config, SECRET_KEY};
use crate::sign::Signer;
use crate::xml;
use std::time::{SystemTime, UNIX_EPOCH};
use tidegate_sdk::net::http::{Request, Response, passes_by_itself};
use tidegate_sdk::net::{Url, percent_encoded};
use tidegate_sdk::{Error, Result, secrets};

/// The longest answer: a page of a list.
const MOST_BYTES: usize = 4 << 20;
/// The header that keeps an object's mark.
const MARK: &str = "x-amz-meta-tidegate";

/// A bucket.
pub(crate) struct Bucket {
    config: Config,
    server: Url,
}

/// An upload that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) key: String,
    pub(crate) id: String,
}

/// What became of an upload that was to be completed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// The object is there.
    Yes,
    /// There is no such upload, or not all of its parts.
    No,
}

/// An answer that was understood, or a refusal by its code.
enum Answer {
    Good(Option<String>, String),
    Refused(u16, String, Error),
}

impl Bucket {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        config.check()?;
        Ok(Bucket { server: config.server()?, config: config.clone() })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Begins an upload.
    pub(crate) fn begin(&self, key: &str, mark: &str) -> Result<String> {
        let request =
            self.request("POST", key, &[("uploads", "")]).with_header(MARK, mark).with_header("content-type", "application/x-ndjson");
        match self.ask(request)? {
            Answer::Good(_, body) => {
                xml::text(&body, "UploadId").ok_or_else(|| Error::retryable(format!("the answer names no upload: {}", brief(&body))))
            }
            Answer::Refused(_, _, error) => Err(error),
        }
    }

    /// Uploads a part and gives its entity tag. A part that is uploaded again takes the place of the old one.
    pub(crate) fn part(&self, upload: &Begun, number: usize, bytes: &[u8]) -> Result<String> {
        let number = number.to_string();
        let request = self.request("PUT", &upload.key, &[("partNumber", &number), ("uploadId", &upload.id)]).with_body(bytes.to_vec());
        match self.ask(request)? {
            Answer::Good(Some(etag), _) => Ok(etag),
            Answer::Good(None, _) => Err(Error::fatal(format!("the server gives no ETag for part {number} of `{}`", upload.key))),
            Answer::Refused(_, code, _) if code == "NoSuchUpload" => Err(Error::fatal(format!(
                "the upload of `{}` is gone: a later start of the run has undone it, or the bucket's rules have",
                upload.key
            ))),
            Answer::Refused(_, _, error) => Err(error),
        }
    }

    /// Makes an upload's object appear.
    pub(crate) fn complete(&self, upload: &Begun, parts: &[String]) -> Result<Completed> {
        let parts = parts.iter().enumerate().map(|(index, etag)| {
            let (number, etag) = (index + 1, xml::escaped(etag));
            format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
        });
        let body = format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", parts.collect::<String>());
        let request = self.request("POST", &upload.key, &[("uploadId", &upload.id)]).with_body(body.into_bytes());
        match self.ask(request)? {
            Answer::Good(..) => Ok(Completed::Yes),
            Answer::Refused(_, code, _) if matches!(code.as_str(), "NoSuchUpload" | "InvalidPart") => Ok(Completed::No),
            Answer::Refused(_, _, error) => Err(error),
        }
    }

    /// Gives an upload up; one that is gone is no error.
    pub(crate) fn abort(&self, upload: &Begun) -> Result<()> {
        match self.ask(self.request("DELETE", &upload.key, &[("uploadId", &upload.id)]))? {
            Answer::Good(..) => Ok(()),
            Answer::Refused(404, ..) => Ok(()),
            Answer::Refused(_, _, error) => Err(error),
        }
    }

    /// Whether there is an object of this name with this mark.
    pub(crate) fn has(&self, key: &str, mark: &str) -> Result<bool> {
        let answer = self.send(self.request("HEAD", key, &[]))?;
        match answer.status {
            200 => Ok(answer.header(MARK) == Some(mark)),
            404 => Ok(false),
            _ => Err(refusal(answer, key)?.2),
        }
    }

    /// All uploads that were begun and neither completed nor given up, whose names begin so.
    pub(crate) fn begun(&self, beginning: &str) -> Result<Vec<Begun>> {
        let mut all = Vec::new();
        let (mut after_key, mut after_id) = (String::new(), String::new());
        loop {
            let mut query = vec![("prefix", beginning), ("uploads", "")];
            if !after_key.is_empty() {
                query.splice(0..0, [("key-marker", after_key.as_str())]);
                query.push(("upload-id-marker", &after_id));
            }
            let body = match self.ask(self.request("GET", "", &query))? {
                Answer::Good(_, body) => body,
                Answer::Refused(_, _, error) => return Err(error),
            };
            for upload in xml::elements(&body, "Upload") {
                let (key, id) = (xml::text(upload, "Key"), xml::text(upload, "UploadId"));
                if let (Some(key), Some(id)) = (key, id) {
                    all.push(Begun { key, id });
                }
            }
            let next = (xml::text(&body, "NextKeyMarker"), xml::text(&body, "NextUploadIdMarker").unwrap_or_default());
            match next {
                (Some(key), id) if xml::text(&body, "IsTruncated").as_deref() == Some("true") && (&key, &id) != (&after_key, &after_id) => {
                    (after_key, after_id) = (key, id);
                }
                _ => return Ok(all),
            }
        }
    }

    /// A request without its signature. The query stands in order of its names.
    fn request(&self, method: &'static str, key: &str, query: &[(&str, &str)]) -> Request {
        let mut target = String::from("/");
        if self.config.path_style {
            target += &self.config.bucket;
            target += if key.is_empty() { "" } else { "/" };
        }
        target += &percent_encoded(key, true);
        for (index, (name, value)) in query.iter().enumerate() {
            target.push(if index == 0 { '?' } else { '&' });
            target += &format!("{}={}", percent_encoded(name, false), percent_encoded(value, false));
        }
        Request::new(method, self.server.with_target(&target)).with_timeouts(self.config.timeouts())
    }

    /// Signs and sends. The keys are asked for each time: they may change during a run.
    fn send(&self, request: Request) -> Result<Response> {
        let (access_key, secret_key) = (secrets::get(ACCESS_KEY)?, secrets::get(SECRET_KEY)?);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let signer = Signer { access_key: access_key.trim(), secret_key: secret_key.trim(), region: &self.config.region };
        signer.sign(request, now.as_secs()).send()
    }

    fn ask(&self, request: Request) -> Result<Answer> {
        let place = format!("{} {}", request.method, request.url.target().split('?').next().unwrap_or_default());
        let answer = self.send(request)?;
        if !answer.is_success() {
            let (status, code, error) = refusal(answer, &place)?;
            return Ok(Answer::Refused(status, code, error));
        }
        let etag = answer.header("etag").map(str::to_owned);
        let body = String::from_utf8_lossy(&answer.bytes(MOST_BYTES)?).into_owned();
        // A server that takes its time says 200 before it knows how it ends.
        match xml::text(&body, "Error").is_some() {
            false => Ok(Answer::Good(etag, body)),
            true => {
                let code = xml::text(&body, "Code").unwrap_or_default();
                let message = format!("{place}: {}", brief(&body));
                Ok(Answer::Refused(200, code.clone(), meant(200, &code, message, None)))
            }
        }
    }
}

/// A refusal: its status, its code, and what it means.
fn refusal(answer: Response, place: &str) -> Result<(u16, String, Error)> {
    let (status, after) = (answer.status, answer.retry_after());
    // A body that breaks off takes nothing from the status.
    let body = answer.bytes(MOST_BYTES).unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    let code = xml::text(&body, "Code").unwrap_or_default();
    let message = format!("{place}: the server answered with status {status} {}", brief(&body));
    let error = meant(status, &code, message.trim_end().to_owned(), after);
    Ok((status, code, error))
}

fn meant(status: u16, code: &str, message: String, after: Option<std::time::Duration>) -> Error {
    match code {
        "RequestTimeout" | "SlowDown" | "InternalError" | "ServiceUnavailable" | "OperationAborted" => Error::Retryable { message, after },
        "RequestTimeTooSkewed" => Error::config(format!("{message}; set this machine's clock")),
        _ if passes_by_itself(status) => Error::Retryable { message, after },
        _ => Error::config(message),
    }
}

/// What an answer says, in short.
fn brief(body: &str) -> String {
    match (xml::text(body, "Code"), xml::text(body, "Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code,
        _ => body.chars().take(200).collect(),
    }
}
