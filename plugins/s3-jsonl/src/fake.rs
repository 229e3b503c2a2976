//! A small S3 in memory: one bucket, multipart uploads, in path style. Only what the sink asks for, and strict about it. The tests of the built component use it too.

use std::collections::BTreeMap;

/// An object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub bytes: Vec<u8>,
    mark: String,
}

#[derive(Debug, Default)]
struct Upload {
    key: String,
    mark: String,
    parts: BTreeMap<u32, Vec<u8>>,
}

/// The server.
#[derive(Debug, Default)]
pub struct Fake {
    pub objects: BTreeMap<String, Object>,
    uploads: BTreeMap<String, Upload>,
    begun: u64,
}

/// An answer: status, headers, body.
pub type Answer = (u16, Vec<(String, String)>, Vec<u8>);

/// Every part but the last has as many bytes.
const LEAST_PART: usize = 5 << 20;
/// How many uploads a page of a list has.
const PAGE: usize = 2;

impl Fake {
    /// The names of the objects whose uploads were begun and neither completed nor given up.
    pub fn waiting(&self) -> Vec<String> {
        self.uploads.values().map(|upload| upload.key.clone()).collect()
    }

    /// Forgets all uploads, as a rule of a bucket does after some days.
    pub fn expire(&mut self) {
        self.uploads.clear();
    }

    /// Answers a request. `header` gives a header's value by its name in lower case.
    pub fn answer(&mut self, method: &str, target: &str, header: impl Fn(&str) -> Option<String>, body: &[u8]) -> Answer {
        let signed = header("authorization").is_some_and(|value| value.starts_with("AWS4-HMAC-SHA256 Credential=test/"));
        if !signed || header("x-amz-date").is_none() {
            return refused(403, "AccessDenied");
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query: BTreeMap<String, String> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (name.to_owned(), plain(value)))
            .collect();
        let Some(key) = path.strip_prefix("/bucket") else { return refused(404, "NoSuchBucket") };
        let key = plain(key.strip_prefix('/').unwrap_or(key));
        let id = query.get("uploadId").cloned().unwrap_or_default();
        match method {
            "POST" if query.contains_key("uploads") => self.begin(key, header("x-amz-meta-tidegate").unwrap_or_default()),
            "POST" => self.complete(&key, &id, &String::from_utf8_lossy(body)),
            "PUT" => self.part(&key, &id, query.get("partNumber").and_then(|number| number.parse().ok()).unwrap_or(0), body),
            "DELETE" if self.owns(&key, &id) => {
                self.uploads.remove(&id);
                (204, Vec::new(), Vec::new())
            }
            "DELETE" => refused(404, "NoSuchUpload"),
            "HEAD" => match self.objects.get(&key) {
                Some(object) => (200, vec![("x-amz-meta-tidegate".into(), object.mark.clone())], Vec::new()),
                None => (404, Vec::new(), Vec::new()),
            },
            "GET" if query.contains_key("uploads") => self.list(&query),
            _ => refused(405, "MethodNotAllowed"),
        }
    }

    fn owns(&self, key: &str, id: &str) -> bool {
        self.uploads.get(id).is_some_and(|upload| upload.key == key)
    }

    fn begin(&mut self, key: String, mark: String) -> Answer {
        self.begun += 1;
        let id = format!("up&{}", self.begun);
        self.uploads.insert(id.clone(), Upload { key, mark, parts: BTreeMap::new() });
        good(&format!("<InitiateMultipartUploadResult><UploadId>{}</UploadId></InitiateMultipartUploadResult>", id.replace('&', "&amp;")))
    }

    fn part(&mut self, key: &str, id: &str, number: u32, body: &[u8]) -> Answer {
        if !self.owns(key, id) {
            return refused(404, "NoSuchUpload");
        }
        if let Some(upload) = self.uploads.get_mut(id) {
            upload.parts.insert(number, body.to_vec());
        }
        (200, vec![("ETag".into(), etag(body))], Vec::new())
    }

    fn complete(&mut self, key: &str, id: &str, body: &str) -> Answer {
        if !self.owns(key, id) {
            return refused(404, "NoSuchUpload");
        }
        let named: Vec<(u32, String)> = body
            .split("<Part>")
            .skip(1)
            .map(|part| (between(part, "PartNumber").parse().unwrap_or(0), between(part, "ETag").replace("&quot;", "\"")))
            .collect();
        let parts = &self.uploads[id].parts;
        let mut bytes = Vec::new();
        for (index, (number, tag)) in named.iter().enumerate() {
            match parts.get(number) {
                Some(part) if etag(part) == *tag && *number as usize == index + 1 => {
                    if part.len() < LEAST_PART && index + 1 < named.len() {
                        return refused(400, "EntityTooSmall");
                    }
                    bytes.extend_from_slice(part);
                }
                _ => return refused(400, "InvalidPart"),
            }
        }
        if let Some(upload) = self.uploads.remove(id) {
            self.objects.insert(upload.key, Object { bytes, mark: upload.mark });
        }
        good("<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
    }

    fn list(&self, query: &BTreeMap<String, String>) -> Answer {
        let prefix = query.get("prefix").map_or("", String::as_str);
        let after = query.get("key-marker").map(|key| (key.clone(), query.get("upload-id-marker").cloned().unwrap_or_default()));
        let mut all: Vec<(String, String)> = self.uploads.iter().map(|(id, upload)| (upload.key.clone(), id.clone())).collect();
        all.sort();
        all.retain(|upload| upload.0.starts_with(prefix) && after.as_ref().is_none_or(|after| upload > after));
        let more = all.len() > PAGE;
        all.truncate(PAGE);
        let mut body = format!("<ListMultipartUploadsResult><IsTruncated>{more}</IsTruncated>");
        for (key, id) in &all {
            body += &format!("<Upload><Key>{key}</Key><UploadId>{}</UploadId></Upload>", id.replace('&', "&amp;"));
        }
        if let (true, Some((key, id))) = (more, all.last()) {
            let id = id.replace('&', "&amp;");
            body += &format!("<NextKeyMarker>{key}</NextKeyMarker><NextUploadIdMarker>{id}</NextUploadIdMarker>");
        }
        good(&(body + "</ListMultipartUploadsResult>"))
    }
}

fn good(body: &str) -> Answer {
    (200, Vec::new(), body.as_bytes().to_vec())
}

fn refused(status: u16, code: &str) -> Answer {
    (status, Vec::new(), format!("<Error><Code>{code}</Code><Message>it is so</Message></Error>").into_bytes())
}

fn etag(bytes: &[u8]) -> String {
    let digest = bytes.iter().fold(0_u64, |digest, byte| digest.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    format!("\"{}-{digest:x}\"", bytes.len())
}

fn between<'a>(text: &'a str, name: &str) -> &'a str {
    let behind = text.split_once(&format!("<{name}>")).map_or("", |(_, behind)| behind);
    behind.split('<').next().unwrap_or_default()
}

/// Undoes percent encoding.
fn plain(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
            bytes.push(u8::from_str_radix(&String::from_utf8_lossy(&digits), 16).unwrap_or(b'?'));
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
