//! Signatures of requests: AWS Signature Version 4, with the payload's digest signed too.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use tidegate_sdk::net::http::Request;

/// Who asks, and where.
pub(crate) struct Signer<'a> {
    pub(crate) access_key: &'a str,
    pub(crate) secret_key: &'a str,
    pub(crate) region: &'a str,
}

impl Signer<'_> {
    /// Adds what a server wants to see. The query of the target stands in order already; every header whose name begins with `x-amz-` is signed.
    pub(crate) fn sign(&self, request: Request, seconds: u64) -> Request {
        let time = timestamp(seconds);
        let day = &time[..8];
        let payload = hex(&Sha256::digest(&request.body));
        let mut request = request.with_header("x-amz-content-sha256", &payload).with_header("x-amz-date", &time);
        let mut signed: Vec<(String, String)> = vec![("host".into(), request.url.authority().to_owned())];
        let own = request.headers.iter().filter(|(name, _)| name.starts_with("x-amz-"));
        signed.extend(own.map(|(name, value)| (name.clone(), value.trim().to_owned())));
        signed.sort();
        let names = signed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
        let headers: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let (path, query) = request.url.target().split_once('?').unwrap_or((request.url.target(), ""));
        let canonical = format!("{}\n{path}\n{query}\n{headers}\n{names}\n{payload}", request.method);
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
        let mut key = keyed(format!("AWS4{}", self.secret_key).as_bytes(), day);
        for part in [self.region, "s3", "aws4_request"] {
            key = keyed(&key, part);
        }
        let signature = hex(&keyed(&key, &to_sign));
        let value = format!("AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", self.access_key);
        request = request.with_header("authorization", value);
        request
    }
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `20130524T000000Z`: seconds since 1970 as a date and time in UTC.
fn timestamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, so that the day that comes and goes is the last one of a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_sdk::net::Url;

    /// The examples of the signature's description.
    #[test]
    fn known_requests_have_their_known_signatures() {
        let signer =
            Signer { access_key: "AKIAIOSFODNN7EXAMPLE", secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", region: "us-east-1" };
        for (target, signature) in [
            ("/?lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            ("/?max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ] {
            let url = Url::parse("https://examplebucket.s3.amazonaws.com").unwrap().with_target(target);
            let signed = signer.sign(Request::new("GET", url), 1_369_353_600);
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
                 SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}"
            );
            assert_eq!(signed.header("authorization"), Some(expected.as_str()), "{target}");
        }
    }

    #[test]
    fn times_are_dates() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (951_868_800, "20000301T000000Z"),
            (1_369_353_600, "20130524T000000Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(timestamp(seconds), text);
        }
    }
}
