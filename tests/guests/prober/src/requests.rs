//! Requests through `wasi:http`.

use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, IncomingBody, Method, OutgoingBody, OutgoingRequest, Scheme};
use wasip2::io::streams::StreamError;

/// Sends a request and gives the status and the body, read up to `most` bytes.
pub(crate) fn send(url: &str, body: Option<&str>, most: usize) -> Result<String, String> {
    let (scheme, rest) = url.split_once("://").ok_or("no URL")?;
    let (authority, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
    let request = OutgoingRequest::new(Fields::new());
    let refused = |what: &str| format!("the host takes no such {what}");
    let method = if body.is_some() { Method::Post } else { Method::Get };
    request.set_method(&method).map_err(|()| refused("method"))?;
    let scheme = match scheme {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        other => Scheme::Other(other.to_string()),
    };
    request.set_scheme(Some(&scheme)).map_err(|()| refused("scheme"))?;
    request.set_authority(Some(authority)).map_err(|()| refused("authority"))?;
    request.set_path_with_query(Some(path)).map_err(|()| refused("path"))?;
    let outgoing = request.body().map_err(|()| refused("body"))?;
    let answer = outgoing_handler::handle(request, None).map_err(|code| format!("{code:?}"))?;
    {
        let stream = outgoing.write().map_err(|()| refused("stream"))?;
        for part in body.unwrap_or_default().as_bytes().chunks(4096) {
            stream.blocking_write_and_flush(part).map_err(|error| format!("{error:?}"))?;
        }
    }
    // What went wrong is in the answer, where it is told better.
    let _ = OutgoingBody::finish(outgoing, None);
    answer.subscribe().block();
    let answer = answer.get().ok_or("no answer")?.map_err(|()| "the answer was taken")?.map_err(|code| format!("{code:?}"))?;
    let location = answer.headers().get("location").first().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let body = read(&answer.consume().map_err(|()| "the body was taken")?, most)?;
    let location = location.map_or(String::new(), |location| format!(" to {location}"));
    Ok(format!("{}{location}: {body}", answer.status()))
}

fn read(body: &IncomingBody, most: usize) -> Result<String, String> {
    let stream = body.stream().map_err(|()| "the body was read")?;
    let mut bytes = Vec::new();
    while bytes.len() < most {
        match stream.blocking_read((most - bytes.len()).min(65536) as u64) {
            Ok(more) => bytes.extend(more),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(error)) => return Err(error.to_debug_string()),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
